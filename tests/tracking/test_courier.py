"""A sender in a process of its own: records what one in this process does, and ends when either side is killed."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lcml.errors import TrackingError
from lcml.tracking import MlflowTracker, list_runs, replay
from lcml.tracking.courier import Courier, sender_for
from lcml.tracking.database import _latest_revision
from lcml.tracking.records import RunStart
from lcml.tracking.sending import Sender
from tests.tracking.stores import DATA, PROCESS, address, free_port, losses, record, rows

LONG = 60.0  # seconds, far more than anything here takes


def wait_for_end(pid: int) -> None:
    process = os.pidfd_open(pid)
    try:
        assert select.select([process], [], [], LONG)[0], f"{pid} still lives"
    finally:
        os.close(process)


def test_a_training_does_not_import_mlflow(database: Path) -> None:
    """A new process, as `lcml train` is one: the whole run is in the store, by a process that has ended by then."""
    code = PROCESS + "assert not {'mlflow', 'sqlalchemy'} & set(sys.modules)\nos.kill(tracker._sender._process.pid, 0)"
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, address(database), "finish"], capture_output=True, text=True
    )
    assert found.returncode == 1
    assert found.stderr.endswith("ProcessLookupError: [Errno 3] No such process\n")
    ((run_id, status),) = rows(database, "select run_uuid, status from runs where name = 'apart'")
    assert status == "FINISHED"
    assert losses(database, str(run_id)) == [(0, 0.25)]
    ((pid,),) = rows(database, "select value from tags where key = 'lcml.pid' and run_uuid = ?", run_id)
    assert not Path(f"/proc/{pid}").exists()


def test_this_process_sends_where_it_has_mlflow_already(database: Path) -> None:
    list_runs(address(database), "other")
    assert isinstance(sender_for(address(database)), Sender)


def test_it_heeds_no_signal_but_the_last(database: Path, tmp_path: Path) -> None:
    """systemd stops all processes of a service at once: the training then has its end recorded."""
    with contextlib.closing(Courier(address(database))) as courier:
        courier.open()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            courier._process.send_signal(number)
        assert not courier.care(tmp_path)


def test_a_run_shorter_than_the_import_of_mlflow_is_recorded(database: Path) -> None:
    told: list[str] = []
    courier = Courier(address(database))
    tracker = MlflowTracker(address(database), finish_seconds=0.5, notify=told.append, sender=courier)
    record(tracker)
    assert told == []
    assert losses(database, tracker.run_id) == [(0, 1.0), (1, 0.5), (2, 0.25)]


@pytest.mark.parametrize(
    ("content", "message"),
    [("raise AttributeError('half installed')", "half installed"), ("import nothing_of_the_kind", "pip install")],
)
def test_an_mlflow_that_cannot_be_imported_is_told(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: str
) -> None:
    (tmp_path / "broken" / "mlflow").mkdir(parents=True)
    (tmp_path / "broken" / "mlflow" / "__init__.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path / "broken")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    told: list[str] = []
    tracker = MlflowTracker(address(database), notify=told.append, sender=Courier(address(database)))
    record(tracker)
    assert message in told[0]
    assert "Training goes on; all is kept" in told[0]


def test_a_python_that_is_not_there_is_named(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(TrackingError, match=r"cannot start '/no/python' to record the run .No such file"):
        Courier(address(database))


def test_it_ends_with_its_parent(database: Path) -> None:
    code = (
        "import sys, time\nfrom lcml.tracking.courier import Courier\n"
        "print(Courier(sys.argv[1])._process.pid, flush=True)\ntime.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", code, address(database)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
    wait_for_end(pid)


def test_its_death_costs_nothing_that_was_recorded(database: Path) -> None:
    """The training goes on, all is kept, and goes to the store later."""
    told: list[str] = []
    courier = Courier(address(database))
    tracker = MlflowTracker(address(database), notify=told.append, flush_seconds=0.01, sender=courier)
    courier._process.send_signal(signal.SIGKILL)
    record(tracker)
    (message,) = told
    assert (
        "(the process that records has ended, exit code -9). Training goes on; all is kept, send it later with"
        in message
    )
    spool = tracker.spool_path
    assert spool is not None
    (sent,) = replay(spool)
    assert (sent.n_metrics, sent.n_artifacts, sent.status) == (3, 1, "FINISHED")


def test_ids_and_failures_come_back(database: Path, tmp_path: Path) -> None:
    start = RunStart("a" * 32, "run", "lcml", None, {}, {}, DATA, time.time_ns() // 1_000_000, None)
    uri = f"http://me:secret@127.0.0.1:{free_port()}"
    here, there, nowhere = Sender(address(database), live=True), Courier(address(database)), Courier(uri)
    try:
        there.send([start])
        here.send([start])  # finds the run that the other has made
        assert (there.run_id, there.experiment) == (here.run_id, here.experiment)
        assert there.run_id is not None
        assert not there.care(tmp_path)
        for _ in range(2):
            with pytest.raises(TrackingError, match=r"no connection to http://127\.0\.0\.1:.*Connection refused"):
                nowhere.send([start])
    finally:
        for courier in (there, nowhere):
            courier.close()
            assert courier._process.returncode == -signal.SIGKILL


def test_the_version_of_the_tables_is_read_off_the_migrations() -> None:
    from mlflow.store.db.utils import _get_latest_schema_revision

    assert _latest_revision() == _get_latest_schema_revision()
