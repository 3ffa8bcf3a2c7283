"""The files that are attacked."""

import shutil
from pathlib import Path

import pytest

from tests.attacks.formats import write_all


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole file of every format."""
    folder = tmp_path_factory.mktemp("whole")
    write_all(folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the directory at hand."""
    shutil.copytree(whole, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"
