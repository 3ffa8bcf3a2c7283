"""What tests share."""

import fcntl
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lcml.runs import plots
from lcml.tracking import database
from tests.forked import sketch

_LONGEST = (
    "test_commands_run",
    "test_reproduce.py",
    "test_ui.py",
    "test_digits_reach_98",
    "test_cluster.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, so that no worker is left with one when the others are done; a module that shares what
    it made stays together."""
    items.sort(key=lambda item: not any(name in item.nodeid for name in _LONGEST))


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector of garbage need not look through it again and again."""
    gc.collect()
    gc.freeze()


REAL: dict[str, Callable[..., Any]] = {
    "lcml.runs.plots.png": plots.png,
    "lcml.runs.quality_plots.png": plots.png,
    "lcml.tracking.database._make": database._make,
}
"""What trainings of tests leave out."""


@pytest.fixture(scope="session", autouse=True)
def _abridged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A training that is recorded takes a second to draw its figures and another to make MLflow's tables: figures are
    made and not drawn, databases copied from the first one. Not so in tests marked `unabridged`."""
    empty = tmp_path_factory.mktemp("tables") / "empty.db"

    def copied(path: Path, new: Path) -> None:
        if not empty.exists():
            REAL["lcml.tracking.database._make"](empty, empty.with_name("new"))
        os.replace(shutil.copy(empty, new), path)

    with pytest.MonkeyPatch.context() as patch:
        for name in REAL:
            patch.setattr(name, copied if name.endswith("_make") else sketch)
        yield


@pytest.fixture(autouse=True)
def _unabridged(request: pytest.FixtureRequest, _abridged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("unabridged"):
        for name, maker in REAL.items():
            monkeypatch.setattr(name, maker)


_VARIABLES_OF_MLFLOW = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID")


@pytest.fixture(autouse=True)
def _no_variables_of_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are recorded where a test says, whatever the environment says; what MLflow sets there itself goes again."""
    for name in _VARIABLES_OF_MLFLOW:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def _no_variables_of_mlflow_at_the_start() -> Iterator[None]:
    """The same for fixtures that live longer than a test."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _VARIABLES_OF_MLFLOW:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def data_dir() -> Path:
    """The directory LCML_DATA_DIR of real data; its tests are skipped where it is not set, and fail on CI."""
    directory = os.environ.get("LCML_DATA_DIR")
    if not directory:
        reason = "LCML_DATA_DIR is not set: it names the directory of the image sets and the authors' files"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return Path(directory)


@pytest.fixture(autouse=True)
def _beside_other_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Under pytest-xdist, a test marked `alone` runs while no other worker runs one.

    Who wants in passes a gate, one at a time, so that one who wants to be alone is not kept waiting by the others.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        yield
        return
    how = fcntl.LOCK_EX if request.node.get_closest_marker("alone") else fcntl.LOCK_SH
    with ExitStack() as files:
        gate, room = (
            files.enter_context((Path(tempfile.gettempdir()) / f"lcml-tests-{run}-{name}").open("w"))
            for name in ("gate", "room")
        )
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(room, how)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield
