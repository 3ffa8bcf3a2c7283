from dataclasses import replace
from pathlib import Path

import pytest

from lcml.errors import FormatError, SettingsError
from lcml.runs.reproduce.experiments import Row
from lcml.runs.reproduce.results import RowResult
from lcml.runs.reproduce.runner import Setup, prepare_circuit, row_settings, run_circuit
from lcml.runs.training import make_learner
from lcml.tracking import NullTracker
from tests.runs.test_training import Recorder, stop_after

ROW = Row("digits", 1.0, "flat", "flat-few")


def setup(directory: Path) -> Setup:
    return Setup(directory, no_tracking=True, backend="numpy")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"max_parameters": 20000, "rounds": 3, "round_iterations": 5, "final-iterations": 5, "l2_path": [1e-3]}
    monkeypatch.setattr("lcml.runs.reproduce.runner.recipe_options", lambda name: few)


def trained(directory: Path, n_asked: int = 10**9) -> tuple[RowResult | None, list[int]]:
    """The result of the row, None where it was stopped, and the rounds that were run."""
    prepared, rounds = prepare_circuit(ROW, setup(directory)), list[int]()
    stop = stop_after(n_asked)
    learner = make_learner(prepared, stop)
    result = run_circuit(
        *(ROW, setup(directory), prepared, learner, NullTracker()),
        on_round=lambda record: rounds.append(record.round),
        should_stop=stop,
    )
    return result, rounds


def test_a_stopped_circuit_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    whole, rounds = trained(tmp_path / "whole")
    assert whole is not None
    assert rounds[:4] == [0, 1, 2, 3]
    assert (whole.name, whole.n_iterations, whole.converged) == ("digits-100-flat", 3, False)
    assert whole.settings == row_settings(ROW, setup(tmp_path))
    assert whole.settings["final_iterations"] == 5
    assert (tmp_path / "whole" / "models" / "digits-100-flat.lcml").is_file()
    stopped, _ = trained(tmp_path / "stopped", 20)
    assert stopped is None
    again, rounds = trained(tmp_path / "stopped")
    assert again is not None
    assert rounds[0] > 0
    assert replace(again, seconds=whole.seconds) == whole


def test_a_checkpoint_of_other_settings_or_none_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, 20)
    with pytest.raises(SettingsError, match=r"digits-100-flat\.checkpoint was made with seed 0, but 1 is asked for"):
        prepare_circuit(ROW, replace(setup(tmp_path), seed=1))
    (checkpoint,) = (tmp_path / "checkpoints").iterdir()
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(FormatError, match=r"digits-100-flat\.checkpoint"):
        prepare_circuit(ROW, setup(tmp_path))


def test_a_run_goes_on_in_the_same_store_alone(tmp_path: Path) -> None:
    here = Setup(tmp_path, backend="numpy", tracking_uri="sqlite:///here.db")
    prepared, tracker, stop = prepare_circuit(ROW, here), Recorder(), stop_after(20)
    assert run_circuit(ROW, here, prepared, make_learner(prepared, stop), tracker, should_stop=stop) is None
    assert tracker.started == [("digits-100-flat", None)]
    assert tracker.statuses == ["KILLED"]
    assert prepare_circuit(ROW, here).checkpoint.run_id == "run-1"
    assert prepare_circuit(ROW, replace(here, tracking_uri="sqlite:///there.db")).checkpoint.run_id is None
