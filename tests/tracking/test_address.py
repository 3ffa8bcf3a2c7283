import os
import subprocess
import sys
from pathlib import Path

import pytest

from lcml.errors import TrackingError
from lcml.tracking import MlflowTracker, experiment_name, list_runs, store_uri
from tests.tracking.stores import DATA, address, record, rows

DEFAULT = "sqlite:///mlruns/mlflow.db"


@pytest.mark.parametrize(
    ("given", "variables", "expected"),
    [
        (None, {}, (DEFAULT, "lcml")),
        (None, {"MLFLOW_TRACKING_URI": "http://a:1", "MLFLOW_EXPERIMENT_NAME": "b"}, ("http://a:1", "b")),
        (None, {"MLFLOW_EXPERIMENT_ID": "7"}, (DEFAULT, "7")),
        (None, {"MLFLOW_EXPERIMENT_ID": "7", "MLFLOW_EXPERIMENT_NAME": "b"}, (DEFAULT, "b")),
        (
            "sqlite:///c.db",
            {"MLFLOW_TRACKING_URI": "http://a:1", "MLFLOW_EXPERIMENT_NAME": "b"},
            ("sqlite:///c.db",) * 2,
        ),
    ],
)
def test_what_is_given_wins_over_the_variables_and_these_over_defaults(
    given: str | None, variables: dict[str, str], expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (store_uri(given), experiment_name(given)) == expected


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:./mlruns")
    with pytest.raises(TrackingError, match=r"MLFLOW_TRACKING_URI: tracking address 'file:\./mlruns': expected sqlite"):
        MlflowTracker()


@pytest.mark.parametrize("uri", ["http://[", "http://host:port", "http://", "https://a:b@[x", "http://a:99999"])
def test_an_address_that_is_none_is_refused(uri: str) -> None:
    with pytest.raises(TrackingError, match=r"expected sqlite:///PATH\.db"):
        list_runs(uri)


def test_the_variables_say_where_a_run_goes_and_is_read(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address(database))
    ((number,),) = rows(database, "select experiment_id from experiments where name = 'other'")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", str(number))
    tracker = MlflowTracker()
    record(tracker)
    assert rows(database, "select experiment_id from runs where run_uuid = ?", tracker.run_id) == [(number,)]
    found = list_runs(experiment=experiment_name())
    assert (found[0].run_id, found[0].experiment) == (tracker.run_id, "other")


def test_an_id_that_is_none_makes_no_experiment(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "4711")
    told: list[str] = []
    tracker = MlflowTracker(address(database), notify=told.append)
    tracker.start("run", {}, {}, DATA)
    tracker.finish("FINISHED")
    assert "has no experiment 4711" in told[0]
    assert rows(database, "select count(*) from experiments where name = '4711'") == [(0,)]


def test_importing_mlflow_leaves_the_filters_of_warnings_to_others() -> None:
    code = (
        "import warnings; before = list(warnings.filters); from lcml.tracking.store import import_mlflow; "
        "import_mlflow('sqlite:///a.db'); ours = [f for f in warnings.filters if f not in before]; "
        "assert not any(f[0] == 'ignore' and f[3] is not None for f in ours), ours"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
