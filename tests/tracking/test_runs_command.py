"""`lcml runs`."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lcml.cli import app
from lcml.tracking import MlflowTracker
from tests.forked import Forked
from tests.tracking.stores import DATA, PROCESS, address, free_port, record, status


def runs(*arguments: object) -> Any:
    """What `lcml runs --json` prints."""
    result = CliRunner().invoke(app, ["runs", "--json", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def three(database: Path) -> Path:
    """Runs first, second and third; the last one was only started and stopped."""
    figures: dict[str, dict[str, float]] = {
        "first": {"n_parameters": 63, "n_elements": 12, "valid_accuracy": 0.75, "test_accuracy": 0.5, "seconds": 2.5},
        "second": {
            "n_parameters": 90,
            "n_elements": 21,
            "valid_accuracy": 0.5,
            "test_accuracy": 0.875,
            "valid_loss": 1,
        },
        "third": {},
    }
    for name, values in figures.items():
        tracker = MlflowTracker(address(database), flush_seconds=0.01)
        tracker.start(name, {"data": "digits", "seed": 7}, {}, DATA)
        if values:
            tracker.metrics(values, 0)
        tracker.finish("FINISHED" if values else "KILLED")
    return database


def test_runs_are_compared_newest_first(three: Path) -> None:
    rows = runs("--tracking-uri", address(three))["runs"]
    assert [row["name"] for row in rows] == ["third", "second", "first"]
    first = rows[-1]
    assert len(first.pop("run_id")) == 32
    assert first == {
        "name": "first",
        "status": "FINISHED",
        "data": "digits",
        "parameters": 63,
        "elements": 12,
        "valid_accuracy": 0.75,
        "test_accuracy": 0.5,
        "seconds": 2.5,
        "seed": 7,
    }
    assert (rows[0]["status"], rows[0]["parameters"]) == ("KILLED", None)


def test_runs_are_sorted_best_first_and_cut(three: Path) -> None:
    def names(*arguments: object) -> list[str]:
        return [row["name"] for row in runs("--tracking-uri", address(three), *arguments)["runs"]]

    assert names("--sort", "test_accuracy") == ["second", "first", "third"]
    assert names("--sort", "valid_accuracy", "--limit", 1) == ["first"]
    assert names("--sort", "n_parameters") == ["first", "second", "third"]
    assert runs("--tracking-uri", address(three), "--sort", "valid_loss")["runs"][0]["valid_loss"] == 1.0


def test_old_names_and_new_ones_are_the_same_metric(three: Path) -> None:
    tracker = MlflowTracker(address(three))
    tracker.start("new", {"data": "digits", "seed": 7}, {}, DATA)
    tracker.metrics({"valid/accuracy": 0.25, "train/loss": 3.0, "circuit/n_elements": 5, "time/fit_seconds": 2}, 0)
    tracker.metrics({"final/test_accuracy": 0.75, "model/n_parameters": 70}, 0)
    tracker.finish("FINISHED")

    def found(sort: str) -> list[tuple[str, float]]:
        rows = runs("--tracking-uri", address(three), "--sort", sort)["runs"]
        return [(row["name"], row[sort]) for row in rows if row[sort] is not None]

    assert found("test_accuracy") == [("second", 0.875), ("new", 0.75), ("first", 0.5)]
    assert found("final/test_accuracy") == found("test_accuracy")
    assert found("valid_accuracy") == [("first", 0.75), ("second", 0.5), ("new", 0.25)]
    assert found("n_parameters") == [("first", 63), ("new", 70), ("second", 90)]
    assert found("train_loss") == [("new", 3.0)]
    assert found("seconds_fit") == [("new", 2)]
    assert found("n_elements") == [("new", 5), ("first", 12), ("second", 21)]


def test_a_table_on_the_terminal(three: Path) -> None:
    result = CliRunner().invoke(app, ["runs", "--tracking-uri", address(three)])
    lines = [line.split() for line in result.stdout.splitlines()]
    (second,) = [line for line in lines if line[:1] == ["second"]]
    assert len(second[1]) == 8
    assert second[2:8] == ["FINISHED", "digits", "90", "21", "0.5", "0.875"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sort", "beauty"), "no run has the metric 'beauty'; they have"),
        (("--experiment", "nowhere"), "no experiment 'nowhere'"),
        (("--replay", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_what_is_not_there_is_refused(three: Path, arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(app, ["runs", "--tracking-uri", address(three), *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert message in line


def test_no_store_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["runs", "--tracking-uri", f"sqlite:///{tmp_path}/none.db"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "train first" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_stale_runs_are_closed(database: Path) -> None:
    Forked("-c", PROCESS, address(database), "die").succeeds()
    (run_id,) = runs("--tracking-uri", address(database), "--close-stale")["closed"]
    assert status(database, run_id) == "KILLED"
    result = CliRunner().invoke(app, ["runs", "--tracking-uri", address(database), "--close-stale"])
    assert result.stdout == "no run is stale\n"
    result = CliRunner().invoke(app, ["runs", "--all"])
    assert (result.exit_code, "--close-stale" in result.stderr) == (2, True)


def test_a_spool_is_replayed(database: Path, tmp_path: Path) -> None:
    tracker = MlflowTracker(
        f"http://127.0.0.1:{free_port()}", spool_dir=tmp_path / "spool", notify=lambda message: None, finish_seconds=5
    )
    record(tracker)
    (sent,) = runs("--replay", tmp_path / "spool", "--tracking-uri", address(database))["sent"]
    assert (sent["n_metrics"], sent["n_artifacts"], sent["status"]) == (3, 1, "FINISHED")
    assert status(database, sent["run_id"]) == "FINISHED"
    result = CliRunner().invoke(app, ["runs", "--replay", str(tmp_path / "spool")])
    assert "holds nothing to send" in result.stdout
