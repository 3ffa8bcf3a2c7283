import time
from pathlib import Path

import pytest

from lcml.errors import TrackingError
from lcml.tracking import MlflowTracker, RunSummary, close_stale_runs, download_artifact, find_run, list_runs, ui_hint
from lcml.tracking.processes import SILENT_SECONDS
from tests.forked import Forked
from tests.tracking.stores import DATA, PROCESS, address, change, free_port, record, rows, until


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


def test_only_runs_whose_process_died_here_are_stale(database: Path, tmp_path: Path) -> None:
    Forked("-c", PROCESS, address(database), "die").succeeds()
    spools = tmp_path / "spools"  # of their own: they would send what the dead one left, and so close it
    alive, elsewhere = (MlflowTracker(address(database), spool_dir=spools) for _ in range(2))
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


def test_a_process_number_that_lives_again_and_a_run_that_fell_silent_are_stale(database: Path) -> None:
    long_ago = int(1000 * (time.time() - SILENT_SECONDS - 1))
    tags: dict[str, dict[str, str]] = {
        "again": {"lcml.birth": "1"},
        "alive but slow": {},
        "container": {"lcml.host": "another"},
        "lately": {"lcml.host": "another"},
        "old": {"lcml.host": "another"},
    }
    for name, more in tags.items():
        tracker = MlflowTracker(address(database))
        tracker.start(name, {}, more, DATA)
        tracker.finish("FINISHED")
        run_id = tracker.run_id
        change(database, "update runs set status = 'RUNNING' where run_uuid = ?", run_id)
        if name in ("alive but slow", "container"):
            change(
                database, f"update tags set value = {long_ago} where key = 'lcml.heartbeat' and run_uuid = ?", run_id
            )
        if name == "old":
            change(database, "delete from tags where key = 'lcml.heartbeat' and run_uuid = ?", run_id)
    assert {run.name for run in close_stale_runs(address(database))} == {"again", "container"}
    assert {run.name for run in close_stale_runs(address(database), everything=True)} == {"old"}


def test_a_run_of_another_millennium_is_listed(database: Path) -> None:
    tracker = MlflowTracker(address(database))
    record(tracker)
    change(database, "update runs set start_time = 999999999999999 where run_uuid = ?", tracker.run_id)
    (run,) = list_runs(address(database))
    assert run.started.year == 9999


def test_where_to_look(database: Path) -> None:
    assert ui_hint("sqlite:///mlruns/mlflow.db", "1") == "mlflow ui --backend-store-uri sqlite:///mlruns/mlflow.db"
    shown = "http://host:5000/#/experiments/3?workflowType=machine_learning"
    assert ui_hint("http://user:secret@host:5000/", "3") == shown
    tracker = MlflowTracker(address(database))
    record(tracker)
    query = "select experiment_id from experiments where name = 'lcml'"
    assert rows(database, query) == [(int(str(tracker.experiment_id)),)]
