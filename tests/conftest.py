"""What tests share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_variables_of_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are recorded where a test says, whatever the environment says."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)


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
