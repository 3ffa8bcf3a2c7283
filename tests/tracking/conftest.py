"""Stores to record runs in."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcml.tracking import MlflowTracker
from tests.tracking.stores import DATA, Server


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables and no run: making one takes a second, copying it nothing."""
    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    tracker = MlflowTracker(f"sqlite:///{path}", "other")
    tracker.start("first", {}, {}, DATA)
    tracker.finish("FINISHED")
    return path


@pytest.fixture
def database(tmp_path: Path, empty_database: Path) -> Path:
    path = tmp_path / "mlruns" / "mlflow.db"
    path.parent.mkdir()
    shutil.copy(empty_database, path)
    return path


@pytest.fixture
def server(tmp_path: Path, empty_database: Path) -> Iterator[Server]:
    server = Server(tmp_path, empty_database)
    server.start()
    try:
        yield server
    finally:
        server.kill()
