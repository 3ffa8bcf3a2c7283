"""A real MLflow server, and what the stores of tracked runs hold when one looks past MLflow."""

import os
import shutil
import signal
import socket
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lcml.tracking import DatasetRecord, Tracker
from tests.forked import Forked

DATA = DatasetRecord("digits", "ab" * 32, "scikit-learn", 1000, 100, 200, 64, 10)

T = TypeVar("T")

# A run in a process of its own: argv is the address and what to do at the end.
PROCESS = f"""
import os, sys, time
from lcml.tracking import DatasetRecord, MlflowTracker
tracker = MlflowTracker(sys.argv[1], flush_seconds=0.05)
tracker.start("apart", {{"seed": 7}}, {{}}, {DATA!r})
tracker.metrics({{"loss": 0.25}}, 0)
tracker.artifact("note.txt", b"hello")
if sys.argv[2] == "finish":
    tracker.finish("FINISHED")
elif sys.argv[2] == "kill":
    os._exit(0)
else:
    while tracker.run_id is None:
        time.sleep(0.01)
    os._exit(0)
"""


def address(database: Path) -> str:
    return f"sqlite:///{database}"


def rows(database: Path, query: str, *values: object) -> list[tuple[object, ...]]:
    """What sqlite itself finds in the database."""
    connection = sqlite3.connect(database)
    try:
        return connection.execute(query, values).fetchall()
    finally:
        connection.close()


def change(database: Path, statement: str, *values: object) -> None:
    """Change the database past MLflow."""
    connection = sqlite3.connect(database)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def status(database: Path, run_id: str | None) -> object:
    return rows(database, "select status from runs where run_uuid = ?", run_id)[0][0]


def losses(database: Path, run_id: str | None) -> list[tuple[object, ...]]:
    query = "select step, value from metrics where key = 'loss' and run_uuid = ? order by step"
    return rows(database, query, run_id)


def artifact_file(run_id: str | None, name: str, directory: Path) -> bytes:
    return (directory / str(run_id) / "artifacts" / name).read_bytes()


def record(tracker: Tracker, name: str = "run") -> None:
    """A whole short run."""
    tracker.start(name, {"rate": 0.5}, {"kind": "test"}, DATA)
    for step in range(3):
        tracker.metrics({"loss": 1 / 2**step}, step)
    tracker.artifact("plots/curve.png", b"picture")
    tracker.finish("FINISHED")


def until(found: Callable[[], T | None], what: str) -> T:
    """The first answer of `found`, asked at most 600 times."""
    for _ in range(600):
        answer = found()
        if answer is not None:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"never came: {what}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Server:
    """A real MLflow server that can be killed and started again on the same port and database."""

    def __init__(self, directory: Path, empty: Path) -> None:
        self.directory, self.port = directory, free_port()
        self.database = directory / "server.db"
        shutil.copy(empty, self.database)
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: Forked | None = None

    def start(self) -> None:
        command = ["-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", address(self.database)]
        command += ["--artifacts-destination", str(self.directory / "files")]
        environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self.directory / "server.log").open("ab") as log:
            to = log.fileno()
            self.process = Forked(*command, stdout=to, stderr=to, cwd=self.directory, env=environment, session=True)
        until(self._healthy, "the MLflow server")

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _healthy(self) -> bool | None:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return bool(answer.status == 200) or None
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None
