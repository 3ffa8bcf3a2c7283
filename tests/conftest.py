"""What tests share."""

import os
from pathlib import Path

import pytest


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
