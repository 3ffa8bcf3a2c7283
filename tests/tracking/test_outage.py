import json
import math
import re
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lcml.errors import FormatError, TrackingError
from lcml.tracking import MlflowTracker, Replayed, download_artifact, list_runs, replay
from tests.forked import Forked
from tests.tracking.stores import (
    DATA,
    PROCESS,
    Server,
    address,
    artifact_file,
    free_port,
    losses,
    record,
    status,
    until,
)

AN_ANSWER = 60
"""Seconds: less than the two minutes for which MLflow's client waits, far more than what waits for nothing takes."""


def dead_server_run(tmp_path: Path) -> Path:
    """The spool of a run whose server never was."""
    told: list[str] = []
    uri = f"http://user:secret@127.0.0.1:{free_port()}"
    tracker = MlflowTracker(uri, spool_dir=tmp_path / "spool", notify=told.append)
    began = time.monotonic()
    record(tracker)
    assert time.monotonic() - began < AN_ANSWER
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
        (lambda lines: [lines[0].replace(b'"format": 2', b'"format": 1')], 1),
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
        tracker.finish("FINISHED")
        assert time.monotonic() - began < AN_ANSWER
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
    assert (sent.run_id, sent.n_metrics, sent.n_artifacts, sent.status) == (tracker.run_id, 3, 1, "FINISHED")
    assert len(losses(database, tracker.run_id)) == 3
    assert artifact_file(tracker.run_id, "plots/curve.png", tmp_path / "file") == b"picture"


def test_an_outage_without_a_place_for_the_spool_is_told_and_stops_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "file").write_text("no directory")
    uri = f"http://127.0.0.1:{free_port()}"
    record(MlflowTracker(uri, spool_dir=tmp_path / "file", notify=told.append))
    (message,) = told
    assert "lost" in message


def test_a_disk_without_room_for_the_spool_loses_nothing_while_the_store_answers(
    tmp_path: Path, database: Path
) -> None:
    told: list[str] = []
    (tmp_path / "file").write_text("no directory")
    tracker = MlflowTracker(address(database), spool_dir=tmp_path / "file", notify=told.append)
    record(tracker)
    assert told == []
    assert len(losses(database, tracker.run_id)) == 3
    assert artifact_file(tracker.run_id, "plots/curve.png", database.parent) == b"picture"


def test_a_line_that_the_disk_takes_in_part_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = f"""
import resource, signal
from lcml.tracking.records import DatasetRecord, Finish, Metrics, RunStart
from lcml.tracking.spool import Spool, SpoolWriter
from pathlib import Path
spool = SpoolWriter(Path("."), RunStart("key", "run", "lcml", None, {{}}, {{}}, {DATA!r}, 1, None), "sqlite:///a.db")
resource.setrlimit(resource.RLIMIT_FSIZE, (spool.path.stat().st_size + 40, resource.RLIM_INFINITY))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    spool.write(Metrics(2, 0, {{"loss": 0.5, "accuracy": 0.25, "more": 0.125}}))
except OSError as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
spool.write(Finish(3, "FINISHED"))
print(Spool.read(spool.path).events)
"""
    assert Forked("-c", code).succeeds()[0] == "No space left on device\n(Finish(time=3, status='FINISHED'),)\n"


def test_what_a_killed_process_had_not_sent_is_in_its_spool(tmp_path: Path, database: Path) -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    printed, said = Forked("-c", PROCESS, uri, "kill", cwd=tmp_path).succeeds()
    assert printed == ""
    assert re.fullmatch(rf"(cannot record this run at {re.escape(uri)} .*\n)?", said)  # where it had time to
    spools = tmp_path / "mlruns" / "spool"
    (spools / "born-dead.jsonl").touch()
    (sent,) = replay(spools, address(database))
    assert (sent.n_metrics, sent.n_artifacts, sent.status) == (1, 1, "KILLED")
    assert losses(database, sent.run_id) == [(0, 0.25)]
    assert artifact_file(sent.run_id, "note.txt", database.parent) == b"hello"
    assert list(spools.iterdir()) == []


def test_the_spool_of_a_run_that_goes_on_since_changes_no_status(tmp_path: Path, database: Path) -> None:
    first = MlflowTracker(address(database), flush_seconds=0.01)
    first.start("run", {"rounds": 5}, {"try": "1"}, DATA)
    until(lambda: first.run_id, "the run")
    spool = first.spool_path
    assert spool is not None
    copy = tmp_path / "copy" / spool.name
    copy.parent.mkdir()
    shutil.copy(spool, copy)  # as if the process had been killed here
    first.finish("KILLED")
    second = MlflowTracker(address(database), flush_seconds=0.01)
    second.start("run", {"rounds": 9}, {"try": "2"}, DATA, run_id=first.run_id)
    until(lambda: status(database, first.run_id) == "RUNNING" or None, "the second process")
    (sent,) = replay(copy)
    assert (sent.run_id, sent.status) == (first.run_id, "RUNNING")
    (run,) = list_runs(address(database))
    assert (run.tags["try"], run.tags["lcml.changed.rounds"]) == ("2", "9")
    second.finish("FINISHED")
    assert status(database, first.run_id) == "FINISHED"


def test_a_missing_artifact_and_a_failing_callback_stop_nothing(tmp_path: Path, database: Path) -> None:
    def fail(message: str) -> None:
        raise RuntimeError(message)

    tracker = MlflowTracker(address(database), notify=fail)
    tracker.start("run", {}, {}, DATA)
    tracker.artifact("model.lcml", tmp_path / "missing")
    tracker.finish("FINISHED")
    assert status(database, tracker.run_id) == "FINISHED"


def test_a_server_killed_in_the_middle_of_a_run(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    until(lambda: told or None, "the outage")
    spool = tracker.spool_path
    assert spool is not None
    with pytest.raises(TrackingError, match="still being written"):
        replay(spool)
    tracker.finish("FINISHED")
    assert time.monotonic() - began < AN_ANSWER
    assert len(told) == 1
    assert status(server.database, tracker.run_id) == "RUNNING"
    with pytest.raises(TrackingError, match="no connection to"):
        replay(spool)

    # Of two runs, the one whose server is back before it ends needs no replay; it sends what others left in its place.
    monkeypatch.setattr("lcml.tracking.tracker.LONGEST_PAUSE", 0.2)
    second = MlflowTracker(server.uri, spool_dir=tmp_path / "another", notify=told.append, flush_seconds=0.05)
    second.start("second", {}, {}, DATA)
    second.metrics({"loss": 2.0}, 0)
    until(lambda: told[1:] or None, "the second outage")
    server.start()
    until(lambda: second.run_id, "the second run")
    second.finish("FINISHED")
    assert second.spool_path is None
    assert "answers again" in told[-1]
    assert status(server.database, second.run_id) == "FINISHED"
    assert losses(server.database, second.run_id) == [(0, 2.0)]

    (sent,) = replay(spool)
    assert (sent.run_id, sent.n_metrics, sent.n_artifacts) == (tracker.run_id, 3, 2)
    assert status(server.database, tracker.run_id) == "FINISHED"
    assert losses(server.database, tracker.run_id) == [(0, 1.0), (1, 0.5)]
    late = download_artifact(str(tracker.run_id), "plots/late.txt", server.uri, tmp_path / "fetched")
    assert late == tmp_path / "fetched" / "late.txt"
    assert late.read_bytes() == b"late"
