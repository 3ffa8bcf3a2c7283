import json
import math
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from lcml.errors import FormatError, MissingDependencyError, OutputError, TrackingError
from lcml.tracking import (
    DEFAULT_URI,
    DatasetRecord,
    MlflowTracker,
    NullTracker,
    Replayed,
    RunSummary,
    Tracker,
    close_stale_runs,
    download_artifact,
    find_run,
    list_runs,
    replay,
    ui_hint,
)
from lcml.tracking.records import check_artifact_name, clean_name
from lcml.tracking.store import shown

DATA = DatasetRecord("digits", "ab" * 32, "scikit-learn", 1000, 100, 200, 64, 10)
PROFILE = {"n_train": 1000, "n_valid": 100, "n_test": 200, "n_variables": 64, "n_classes": 10, "fingerprint": "ab" * 32}

T = TypeVar("T")

# A run in a process of its own: argv is the address and what to do at the end.
PROCESS = f"""
import os, sys
from lcml.tracking import DatasetRecord, MlflowTracker
tracker = MlflowTracker(sys.argv[1], flush_seconds=0.05)
tracker.start("apart", {{"seed": 7}}, {{}}, {DATA!r})
tracker.metrics({{"loss": 0.25}}, 0)
tracker.artifact("note.txt", b"hello")
if sys.argv[2] == "finish":
    tracker.finish("FINISHED")
else:
    while tracker.run_id is None:
        pass
    os._exit(0)
"""


@pytest.fixture(scope="module")
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


def address(database: Path) -> str:
    return f"sqlite:///{database}"


def rows(database: Path, query: str, *values: object) -> list[tuple[object, ...]]:
    """What sqlite itself finds in the database."""
    connection = sqlite3.connect(database)
    try:
        return connection.execute(query, values).fetchall()
    finally:
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
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", address(self.database)]
        command += ["--artifacts-destination", str(self.directory / "files")]
        environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.directory, env=environment, start_new_session=True
            )
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


@pytest.fixture
def server(tmp_path: Path, empty_database: Path) -> Iterator[Server]:
    server = Server(tmp_path, empty_database)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def test_everything_of_a_run_is_in_the_database(database: Path) -> None:
    tracker = MlflowTracker(address(database))
    record(tracker)
    assert tracker.uri == address(database)
    assert tracker.spool_path is None
    run = tracker.run_id
    assert status(database, run) == "FINISHED"
    assert losses(database, run) == [(0, 1.0), (1, 0.5), (2, 0.25)]
    assert rows(database, "select key, value from params where run_uuid = ?", run) == [("rate", "0.5")]
    assert artifact_file(run, "plots/curve.png", database.parent) == b"picture"
    tags = {row[0]: row[1] for row in rows(database, "select key, value from tags where run_uuid = ?", run)}
    assert tags["kind"] == "test"
    assert (tags["lcml.pid"], tags["lcml.host"]) == (str(os.getpid()), socket.gethostname())
    assert (tags["lcml.key"], tags["mlflow.source.name"]) == (tracker.key, "lcml")
    query = "select d.name, d.digest, d.dataset_source, d.dataset_profile from datasets d join inputs i "
    query += "on i.source_id = d.dataset_uuid where i.destination_id = ?"
    ((name, digest, source, profile),) = rows(database, query, run)
    assert (name, digest, source) == ("digits", ("ab" * 32)[:36], "scikit-learn")
    assert json.loads(str(profile)) == PROFILE


@pytest.mark.parametrize("final", ["FINISHED", "FAILED", "KILLED"])
def test_the_final_status_and_what_follows_it(database: Path, final: str) -> None:
    tracker = MlflowTracker(address(database))
    tracker.start("run", {}, {}, DATA)
    tracker.finish(final)  # type: ignore[arg-type]
    tracker.metrics({"loss": 1.0}, 0)
    tracker.finish("FAILED")
    assert status(database, tracker.run_id) == final
    assert losses(database, tracker.run_id) == []


def test_not_a_number_infinity_and_odd_names(database: Path) -> None:
    tracker = MlflowTracker(address(database))
    tracker.start("run", {"a=b": None, "../up": True}, {"t\n": "x"}, DATA)
    tracker.metrics({"nan": math.nan, "inf": math.inf, "less": -math.inf, "f1 (macro)": 0.5}, 0)
    tracker.finish("FINISHED")
    (run,) = list_runs(address(database))
    assert math.isnan(run.metrics["nan"])
    assert {name: value for name, value in run.metrics.items() if name != "nan"} == {
        "inf": math.inf,
        "less": -math.inf,
        "f1 _macro_": 0.5,
    }
    assert run.params == {"a_b": "None", "_up": "True"}
    assert run.tags["t_"] == "x"


def test_more_metrics_and_parameters_than_one_call_takes(database: Path) -> None:
    tracker = MlflowTracker(address(database))
    tracker.start("run", {f"p{i:03}": i for i in range(250)}, {}, DATA)
    for step in range(1250):
        tracker.metrics({"loss": float(step), "accuracy": 0.5}, step)
    tracker.finish("FINISHED")
    assert losses(database, tracker.run_id) == [(step, float(step)) for step in range(1250)]
    assert rows(database, "select count(*) from metrics where run_uuid = ?", tracker.run_id) == [(2500,)]
    assert rows(database, "select count(*) from params where run_uuid = ?", tracker.run_id) == [(250,)]


def test_a_long_parameter_is_cut_and_kept_whole_in_an_artifact(database: Path) -> None:
    tracker = MlflowTracker(address(database))
    tracker.start("run", {"long": "x" * 6001, "full": "y" * 6000}, {}, DATA)
    tracker.finish("FINISHED")
    (run,) = list_runs(address(database))
    assert run.params == {"long": "x" * 5997 + "...", "full": "y" * 6000}
    whole = json.loads(artifact_file(run.run_id, "params.json", database.parent))
    assert whole == {"long": "x" * 6001, "full": "y" * 6000}


def test_a_resumed_run_goes_on_and_tells_what_changed(database: Path) -> None:
    first = MlflowTracker(address(database))
    first.start("run", {"same": 1, "rounds": 5}, {"try": "1"}, DATA)
    first.metrics({"loss": 1.0}, 0)
    first.finish("KILLED")
    second = MlflowTracker(address(database))
    second.start("run", {"same": 1, "rounds": 9, "new": 2}, {"try": "2"}, DATA, run_id=first.run_id)
    second.metrics({"loss": 0.5}, 1)
    until(lambda: len(losses(database, first.run_id)) == 2 or None, "the second loss")
    assert status(database, first.run_id) == "RUNNING"
    second.finish("FINISHED")
    (run,) = list_runs(address(database))
    assert (run.run_id, run.status) == (first.run_id, "FINISHED") == (second.run_id, "FINISHED")
    assert run.params == {"same": "1", "rounds": "5", "new": "2"}
    assert (run.tags["lcml.changed.rounds"], run.tags["try"]) == ("9", "2")
    assert run.tags["lcml.key"] == first.key
    assert losses(database, run.run_id) == [(0, 1.0), (1, 0.5)]
    assert second.spool_path is None


def test_processes_started_at_once_in_a_new_place_all_succeed_silently(tmp_path: Path) -> None:
    place = tmp_path / "new # place"
    place.mkdir()
    command = [sys.executable, "-W", "error", "-c", PROCESS, DEFAULT_URI, "finish"]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, cwd=place, stdout=pipe, stderr=pipe) for _ in range(3)]
    assert [process.communicate(timeout=120) for process in processes] == [(b"", b"")] * 3
    database = place / "mlruns" / "mlflow.db"
    runs = [str(row[0]) for row in rows(database, "select run_uuid from runs where status = 'FINISHED'")]
    assert len(runs) == 3
    for run in runs:
        assert losses(database, run) == [(0, 0.25)]
        assert artifact_file(run, "note.txt", database.parent) == b"hello"
    assert rows(database, "select count(*) from experiments where name = 'lcml'") == [(1,)]
    assert [path.name for path in place.iterdir()] == ["mlruns"]
    assert not (database.parent / "spool").exists()


def test_a_place_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=r"cannot write .*file/mlruns/mlflow\.db"):
        MlflowTracker(address(tmp_path / "file" / "mlruns" / "mlflow.db"))
    with pytest.raises(OutputError, match="cannot write"):
        MlflowTracker(address(tmp_path))


@pytest.mark.parametrize(
    "uri", ["mlruns", "file:./mlruns", "sqlite://", "sqlite:///a%20b.db", "sqlite:///a.db?mode=ro"]
)
def test_an_address_mlflow_cannot_use_is_refused(uri: str) -> None:
    with pytest.raises(TrackingError, match=r"expected sqlite:///PATH\.db"):
        MlflowTracker(uri)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but longer than its magic")
    with pytest.raises(TrackingError, match="is not a sqlite database"):
        MlflowTracker(address(path))
    assert path.read_text() == "not a database, but longer than its magic"


def test_without_mlflow_the_error_names_the_extra_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow.tracking.client", None)
    tracker = MlflowTracker(address(tmp_path / "mlflow.db"))
    with pytest.raises(MissingDependencyError, match=r"--no-tracking.*mlflow: pip install 'lcml\[tracking\]'"):
        tracker.start("run", {}, {}, DATA)


def test_importing_tracking_does_not_import_mlflow() -> None:
    code = "import sys, lcml.tracking; assert not {'mlflow', 'sqlalchemy', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_null_tracker_is_a_tracker() -> None:
    tracker: Tracker = NullTracker()
    record(tracker)
    assert (tracker.run_id, tracker.uri) == (None, None)


def dead_server_run(tmp_path: Path) -> Path:
    """The spool of a run whose server never was."""
    told: list[str] = []
    uri = f"http://user:secret@127.0.0.1:{free_port()}"
    tracker = MlflowTracker(uri, spool_dir=tmp_path / "spool", notify=told.append)
    began = time.monotonic()
    record(tracker)
    assert time.monotonic() - began < 5
    spool = tracker.spool_path
    assert spool is not None
    (message,) = told
    assert "Connection refused" in message
    assert f"lcml runs --replay {spool}" in message
    assert "secret" not in message + spool.read_text()
    assert tracker.run_id is None
    return spool


def check_replayed(database: Path, sent: Replayed) -> None:
    """The run of `record`, once."""
    assert (sent.n_metrics, sent.n_artifacts, sent.status) == (3, 1, "FINISHED")
    (run,) = list_runs(address(database))
    assert (run.run_id, run.name, run.status) == (sent.run_id, "run", "FINISHED")
    assert run.params == {"rate": "0.5"}
    assert run.tags["kind"] == "test"
    assert losses(database, run.run_id) == [(0, 1.0), (1, 0.5), (2, 0.25)]
    assert artifact_file(run.run_id, "plots/curve.png", database.parent) == b"picture"


def test_a_run_without_a_server_is_spooled_and_replayed_once(tmp_path: Path, database: Path) -> None:
    spool = dead_server_run(tmp_path)
    again = tmp_path / "again"
    shutil.copytree(spool.parent, again)
    (sent,) = replay(spool, address(database))
    check_replayed(database, sent)
    assert list(spool.parent.iterdir()) == []
    (sent_again,) = replay(again, address(database))
    assert sent_again.run_id == sent.run_id
    check_replayed(database, sent_again)
    assert replay(again, address(database)) == []
    with pytest.raises(TrackingError, match="cannot read the spool"):
        replay(spool, address(database))


def test_an_interrupted_replay_goes_on(tmp_path: Path, database: Path) -> None:
    spool = dead_server_run(tmp_path)
    head, *rest = spool.read_text().splitlines(keepends=True)
    blocked = tmp_path / "mlruns" / "blocked"
    blocked.write_text("where the artifacts should go")
    spool.write_text(json.dumps({**json.loads(head), "artifact_location": blocked.as_uri()}) + "\n" + "".join(rest))
    with pytest.raises(TrackingError, match="tracking store sqlite"):
        replay(spool, address(database))
    (run,) = list_runs(address(database))
    assert len(losses(database, run.run_id)) == 3
    blocked.unlink()
    (sent,) = replay(spool, address(database))
    assert (sent.run_id, sent.status, sent.n_artifacts) == (run.run_id, "FINISHED", 1)
    assert len(losses(database, run.run_id)) == 3
    assert artifact_file(run.run_id, "plots/curve.png", blocked) == b"picture"
    assert len(list_runs(address(database))) == 1


def test_the_spool_of_a_killed_training_is_replayed_as_killed(tmp_path: Path, database: Path) -> None:
    spool = dead_server_run(tmp_path)
    lines = spool.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[-1])["type"] == "finish"
    spool.write_bytes(b"".join(lines[:-1]) + lines[-1][:-10])
    (sent,) = replay(spool, address(database))
    assert sent.status == status(database, sent.run_id) == "KILLED"


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda lines: [b"\xff\xfe\n"], 1),
        (lambda lines: [], 1),
        (lambda lines: [lines[0], lines[0]], 2),
        (lambda lines: [lines[0], b'{"type": "metrics", "time": 1, "step": 0, "values": {"a": "b"}}\n'], 2),
        (lambda lines: [lines[0], b'{"type": "artifact", "name": "../../x", "file": "0.x"}\n'], 2),
        (lambda lines: [lines[0], lines[1], b'{"type": "poem"}\n'], 3),
        (lambda lines: [lines[1]], 1),
        (lambda lines: [lines[0].replace(b'"format": 1', b'"format": 2')], 1),
    ],
)
def test_a_file_that_is_no_spool_is_refused_with_its_line(
    tmp_path: Path, spoil: Callable[[list[bytes]], list[bytes]], line: int
) -> None:
    spool = dead_server_run(tmp_path)
    spool.write_bytes(b"".join(spoil(spool.read_bytes().splitlines(keepends=True))))
    with pytest.raises(FormatError) as caught:
        replay(spool)
    assert (caught.value.path, caught.value.line) == (spool, line)
    assert spool.exists()


def test_a_server_that_hangs_slows_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent:  # takes connections, never answers
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        tracker = MlflowTracker(uri, spool_dir=tmp_path, notify=told.append, flush_seconds=0.01, finish_seconds=0.5)
        tracker.start("run", {}, {}, DATA)
        began = time.monotonic()
        for step in range(1000):
            tracker.metrics({"loss": math.inf if step else math.nan}, step)
        assert time.monotonic() - began < 0.5
        tracker.finish("FINISHED")
        assert time.monotonic() - began < 3
    (message,) = told
    assert "no answer within 0.5 s" in message
    assert tracker.spool_path is not None
    lines = [json.loads(line) for line in tracker.spool_path.read_text().splitlines()]
    assert [line["type"] for line in lines] == ["run", *["metrics"] * 1000, "finish"]
    assert [line["values"]["loss"] for line in lines[1:3]] == ["nan", "inf"]


def test_artifacts_that_cannot_be_sent_hold_up_nothing_else(tmp_path: Path, database: Path) -> None:
    told: list[str] = []
    (tmp_path / "file").write_text("no directory")
    tracker = MlflowTracker(address(database), artifact_location=str(tmp_path / "file"), notify=told.append)
    record(tracker)
    assert status(database, tracker.run_id) == "FINISHED"
    assert len(losses(database, tracker.run_id)) == 3
    assert len(told) == 1
    assert tracker.spool_path is not None
    (tmp_path / "file").unlink()
    (sent,) = replay(tracker.spool_path)
    assert (sent.run_id, sent.n_metrics, sent.n_artifacts, sent.status) == (tracker.run_id, 0, 1, "FINISHED")
    assert artifact_file(tracker.run_id, "plots/curve.png", tmp_path / "file") == b"picture"


def test_an_outage_without_a_place_for_the_spool_is_told_and_stops_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "file").write_text("no directory")
    uri = f"http://127.0.0.1:{free_port()}"
    record(MlflowTracker(uri, spool_dir=tmp_path / "file", notify=told.append))
    (message,) = told
    assert "lost" in message


def test_a_missing_artifact_and_a_failing_callback_stop_nothing(tmp_path: Path, database: Path) -> None:
    def fail(message: str) -> None:
        raise RuntimeError(message)

    tracker = MlflowTracker(address(database), notify=fail)
    tracker.start("run", {}, {}, DATA)
    tracker.artifact("model.lcml", tmp_path / "missing")
    tracker.finish("FINISHED")
    assert status(database, tracker.run_id) == "FINISHED"


def test_a_server_killed_in_the_middle_of_a_run(server: Server, tmp_path: Path) -> None:
    told: list[str] = []
    tracker = MlflowTracker(server.uri, spool_dir=tmp_path / "spool", notify=told.append, flush_seconds=0.05)
    tracker.start("run", {"rate": 0.5}, {}, DATA)
    tracker.metrics({"loss": 1.0, "nan": math.nan}, 0)
    tracker.artifact("early.txt", b"early")
    stored = server.directory / "files"
    until(lambda: next(stored.rglob("early.txt"), None), "the first artifact")
    assert losses(server.database, tracker.run_id) == [(0, 1.0)]
    assert told == []

    server.kill()
    began = time.monotonic()
    tracker.metrics({"loss": 0.5}, 1)
    tracker.artifact("plots/late.txt", b"late")
    spool = until(lambda: tracker.spool_path, "the spool")
    with pytest.raises(TrackingError, match="still being written"):
        replay(spool)
    tracker.finish("FINISHED")
    assert time.monotonic() - began < 10
    assert len(told) == 1
    assert status(server.database, tracker.run_id) == "RUNNING"
    with pytest.raises(TrackingError, match="no connection to"):
        replay(spool)

    # Of two runs, the one whose server is back before it ends needs no replay.
    second = MlflowTracker(server.uri, spool_dir=tmp_path / "spool", notify=told.append, flush_seconds=0.05)
    second.start("second", {}, {}, DATA)
    second.metrics({"loss": 2.0}, 0)
    until(lambda: second.spool_path, "the second spool")
    server.start()
    second.finish("FINISHED")
    assert second.spool_path is None
    assert "answers again" in told[-1]
    assert status(server.database, second.run_id) == "FINISHED"
    assert losses(server.database, second.run_id) == [(0, 2.0)]

    (sent,) = replay(spool)
    assert (sent.run_id, sent.n_metrics, sent.n_artifacts) == (tracker.run_id, 1, 1)
    assert status(server.database, tracker.run_id) == "FINISHED"
    assert losses(server.database, tracker.run_id) == [(0, 1.0), (1, 0.5)]
    late = download_artifact(str(tracker.run_id), "plots/late.txt", server.uri, tmp_path / "fetched")
    assert late == tmp_path / "fetched" / "late.txt"
    assert late.read_bytes() == b"late"


def test_runs_are_listed_newest_first(database: Path) -> None:
    trackers = [MlflowTracker(address(database)) for _ in range(3)]
    for number, tracker in enumerate(trackers):
        tracker.start(f"run {number}", {"seed": number}, {}, DATA)
        tracker.metrics({"accuracy": number / 4}, 0)
        tracker.finish("FINISHED")
    runs = list_runs(address(database))
    assert [run.run_id for run in runs] == [tracker.run_id for tracker in reversed(trackers)]
    assert [run.params["seed"] for run in runs] == ["2", "1", "0"]
    assert [run.metrics for run in runs] == [{"accuracy": 0.5}, {"accuracy": 0.25}, {"accuracy": 0.0}]
    assert all(run.seconds is not None and 0 <= run.seconds < 60 for run in runs)
    assert [run.name for run in list_runs(address(database), limit=1)] == ["run 2"]
    assert len(list_runs(address(database), None)) == 4  # with the one of the experiment 'other'


def test_asking_where_nothing_is(tmp_path: Path, database: Path) -> None:
    with pytest.raises(TrackingError, match="does not exist"):
        list_runs(address(tmp_path / "nowhere.db"))
    assert not (tmp_path / "nowhere.db").exists()
    with pytest.raises(TrackingError, match=r"no experiment 'lcml' at .*; it has Default, other"):
        list_runs(address(database))
    with pytest.raises(TrackingError, match="no connection to"):
        list_runs(f"http://127.0.0.1:{free_port()}")


def test_a_run_is_found_by_id_key_name_or_beginning(database: Path) -> None:
    def found(name: str) -> RunSummary:
        return find_run(name, address(database))

    one, two = MlflowTracker(address(database)), MlflowTracker(address(database))
    record(one, "same")
    record(two, "same")
    assert one.run_id is not None
    for name in (one.run_id, one.key, one.run_id[:12]):
        assert found(name).run_id == one.run_id
    with pytest.raises(TrackingError, match=r"2 runs at .* are called 'same'") as caught:
        found("same")
    assert one.run_id in str(caught.value)
    with pytest.raises(TrackingError, match="'other name'"):
        found("other name")


def test_an_artifact_is_fetched_by_name(database: Path, tmp_path: Path) -> None:
    tracker = MlflowTracker(address(database))
    record(tracker)
    run_id = str(tracker.run_id)
    path = download_artifact(run_id, "plots/curve.png", address(database), tmp_path / "new")
    assert path == tmp_path / "new" / "curve.png"
    assert path.read_bytes() == b"picture"
    with pytest.raises(TrackingError, match=r"has no artifact 'plots/none'; it has plots/curve\.png there"):
        download_artifact(run_id, "plots/none", address(database), tmp_path)


def test_only_runs_whose_process_died_here_are_stale(database: Path) -> None:
    subprocess.run([sys.executable, "-c", PROCESS, address(database), "die"], check=True)
    alive, elsewhere = MlflowTracker(address(database)), MlflowTracker(address(database))
    alive.start("alive", {}, {}, DATA)
    elsewhere.start("elsewhere", {}, {"lcml.host": "another", "lcml.pid": "1"}, DATA)
    for tracker in (alive, elsewhere):
        until(lambda tracker=tracker: tracker.run_id, "the run")  # type: ignore[misc]
    (closed,) = close_stale_runs(address(database))
    assert (closed.name, closed.status, closed.seconds) == ("apart", "RUNNING", None)
    after = {run.name: run.status for run in list_runs(address(database))}
    assert after == {"apart": "KILLED", "alive": "RUNNING", "elsewhere": "RUNNING"}
    for tracker in (alive, elsewhere):
        tracker.finish("FINISHED")


def test_where_to_look(database: Path) -> None:
    assert ui_hint("sqlite:///mlruns/mlflow.db", "1") == "mlflow ui --backend-store-uri sqlite:///mlruns/mlflow.db"
    page = "#/experiments/3/runs?compareRunsMode=CHART&workflowType=machine_learning"
    assert ui_hint("http://user:secret@host:5000/", "3") == f"http://host:5000/{page}"
    tracker = MlflowTracker(address(database))
    record(tracker)
    query = "select experiment_id from experiments where name = 'lcml'"
    assert rows(database, query) == [(int(str(tracker.experiment_id)),)]


@pytest.mark.parametrize(
    ("name", "clean"),
    [("valid/f1 macro", "valid/f1 macro"), ("a:b=c", "a_b_c"), ("../up", "_up"), ("/a//b", "_a__b"), ("..", "_")],
)
def test_names_become_what_mlflow_takes(name: str, clean: str) -> None:
    assert clean_name(name) == clean


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../up", "a/../../b", "a//b", "a\\b", "."])
def test_an_artifact_name_stays_inside(name: str) -> None:
    with pytest.raises(TrackingError, match="plain relative path"):
        check_artifact_name(name)


def test_passwords_are_not_shown() -> None:
    assert shown("postgresql+psycopg2://me:secret@db:5432/runs") == "postgresql+psycopg2://db:5432/runs"
    assert shown("sqlite:///mlruns/mlflow.db") == "sqlite:///mlruns/mlflow.db"
