import json
import math
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lcml.errors import MissingDependencyError, OutputError, TrackingError
from lcml.tracking import DEFAULT_URI, MlflowTracker, NullTracker, Tracker, list_runs
from lcml.tracking.address import shown
from lcml.tracking.records import check_artifact_name, clean_name
from tests.forked import Forked
from tests.tracking.stores import (
    DATA,
    PROCESS,
    address,
    artifact_file,
    losses,
    record,
    rows,
    status,
    until,
)

PROFILE = {"n_train": 1000, "n_valid": 100, "n_test": 200, "n_variables": 64, "n_classes": 10, "fingerprint": "ab" * 32}


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
    query = "select value from experiment_tags where key = 'mlflow.experimentKind'"
    assert rows(database, query) == [("custom_model_development",)] * 2  # of 'other' and 'lcml'
    query = "select d.name, d.digest, d.dataset_source, d.dataset_profile from datasets d join inputs i "
    query += "on i.source_id = d.dataset_uuid where i.destination_id = ?"
    ((name, digest, source, profile),) = rows(database, query, run)
    assert (name, digest, source) == ("digits", ("ab" * 32)[:36], "scikit-learn")
    assert json.loads(str(profile)) == PROFILE
    for (schema,) in rows(database, "select dataset_schema from datasets where name = 'digits'"):
        assert "[-1, 64]" in str(schema)


def test_the_columns_of_a_table_are_in_the_schema_of_its_data_set(database: Path) -> None:
    tracker = MlflowTracker(address(database))
    data = replace(DATA, digest="cd" * 32, n_variables=2, feature_names=("age", "fare"))
    tracker.start("run", {}, {}, data)
    tracker.finish("FINISHED")
    ((schema,),) = rows(database, "select dataset_schema from datasets where digest like 'cd%'")
    columns = json.loads(str(schema))["mlflow_colspec"]
    assert [(column["name"], column["type"]) for column in columns] == [("age", "double"), ("fare", "double")]


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
    second = MlflowTracker(address(database), flush_seconds=0.05)
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
    command = ["-c", PROCESS, DEFAULT_URI, "finish"]
    new = subprocess.Popen([sys.executable, "-W", "error", *command], cwd=place, stdout=-1, stderr=-1, text=True)
    forked = [Forked(*command, cwd=place, errors=True) for _ in range(2)]
    assert [process.succeeds() for process in forked] == [("", "")] * 2
    assert (new.communicate(timeout=120), new.returncode) == (("", ""), 0)
    database = place / "mlruns" / "mlflow.db"
    runs = [str(row[0]) for row in rows(database, "select run_uuid from runs where status = 'FINISHED'")]
    assert len(runs) == 3
    for run in runs:
        assert losses(database, run) == [(0, 0.25)]
        assert artifact_file(run, "note.txt", database.parent) == b"hello"
    assert rows(database, "select count(*) from experiments where name = 'lcml'") == [(1,)]
    assert [path.name for path in place.iterdir()] == ["mlruns"]
    assert list((database.parent / "spool").iterdir()) == []


def test_data_that_another_run_records_at_the_same_time_are_no_failure(database: Path) -> None:
    from mlflow.store.tracking.dbmodels.models import SqlDataset
    from sqlalchemy import event

    told: list[str] = []
    data = replace(DATA, name="twice")
    other = MlflowTracker(address(database))

    def first_the_other(*_: object) -> None:  # between this run's look for its data and its own insert
        other.start("other", {}, {}, data)
        other.finish("FINISHED")

    event.listen(SqlDataset, "before_insert", first_the_other, once=True)
    tracker = MlflowTracker(address(database), notify=told.append)
    tracker.start("run", {}, {}, data)
    tracker.finish("FINISHED")
    assert told == []
    query = "select destination_id from inputs join datasets on source_id = dataset_uuid where name = 'twice'"
    assert {row[0] for row in rows(database, query)} == {tracker.run_id, other.run_id}
    assert rows(database, "select count(*) from datasets where name = 'twice'") == [(1,)]


def test_a_place_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=r"cannot write .*file/mlruns/mlflow\.db"):
        MlflowTracker(address(tmp_path / "file" / "mlruns" / "mlflow.db"))
    with pytest.raises(OutputError, match="cannot write"):
        MlflowTracker(address(tmp_path))


@pytest.mark.parametrize(
    "uri",
    ["mlruns", "file:./mlruns", "sqlite://", "sqlite:///a%20b.db", "sqlite:///a.db?mode=ro", "htp://localhost:5000"],
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


def test_a_relative_address_is_that_of_the_directory_at_hand(
    tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copy(empty_database, tmp_path / name / "mlflow.db")
        monkeypatch.chdir(tmp_path / name)
        record(MlflowTracker("sqlite:///mlflow.db"), name)
        assert rows(tmp_path / name / "mlflow.db", "select name from runs where name != 'first'") == [(name,)]
