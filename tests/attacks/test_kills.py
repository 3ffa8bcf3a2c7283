"""Trainings killed at any moment go on to the same model, and their runs are whole."""

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lcml.formats import load_model, save_model
from lcml.tracking import database
from tests.attacks.attack import FULL
from tests.cli.commands import output
from tests.conftest import REAL
from tests.forked import Forked
from tests.tracking.stores import address, rows

N_MAKING, N_TRAINING = (20, 30) if FULL else (1, 0)
ROUNDS, PENALTIES = 8, 2
TRAIN = (
    *("train", "digits", "--json", "--rounds", str(ROUNDS), "--patience", "1000", "--growth", "0.02"),
    *(
        "--round-iterations",
        "10",
        "--final-iterations",
        "10",
        "--tolerance",
        "0",
        "--l2-path",
        "0.1",
        "--l2-path",
        "0.01",
    ),
)

TOLD = """
import sys
from lcml.tracking import database
make = database._make
def told(*places):
    print("making", file=sys.stderr)
    make(*places)
    print("made", file=sys.stderr)
database._make = told
from lcml.cli import main
main()
"""
"""lcml, which tells when it makes its database; a training tells of its rounds on stderr."""


@dataclass(frozen=True)
class Undisturbed:
    """A training that nobody kills: its model, what it records, and how many seconds it takes to make the database and
    from then on."""

    model: bytes
    points: list[tuple[object, ...]]
    making: float
    training: float


def started(directory: Path) -> Forked:
    """A training with a process and a store of its own, told of on stderr."""
    directory.mkdir()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return Forked("-c", TOLD, *TRAIN, *store(directory), cwd=directory, env=environment)


def store(directory: Path) -> tuple[str, str]:
    """The option that names it, absolutely: MLflow keeps one open by its name."""
    return "--tracking-uri", address(directory / "mlruns/mlflow.db")


def wait_for(process: Forked, beginning: str) -> None:
    """Until it prints a line that begins so."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith(beginning):
            return
    raise AssertionError("".join(lines))


def content(model: Path, place: Path) -> bytes:
    """The bytes of a model file but for what it says of where and when it was made."""
    save_model(replace(load_model(model), provenance={}), place)
    return place.read_bytes()


def points(database: Path) -> list[tuple[object, ...]]:
    """What the one run that ended well has measured that is no time, each point once."""
    ((run,),) = rows(database, "select run_uuid from runs where status = 'FINISHED'")
    measured = "select distinct key, step, value from metrics where run_uuid = ? and key not like '%seconds%'"
    return rows(database, f"{measured} order by key, step", run)


@pytest.fixture(scope="module", autouse=True)
def _databases_are_made() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_make", REAL["lcml.tracking.database._make"])
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    directory, times = tmp_path_factory.mktemp("undisturbed"), list[float]()
    make = database._make

    def timed(*places: Path) -> None:
        times.append(time.monotonic())
        make(*places)
        times.append(time.monotonic())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_make", timed)
        patch.chdir(directory)
        output(*TRAIN, *store(directory))
        times.append(time.monotonic())
    making, made, trained = times
    model = content(directory / "digits.lcml", directory / "bare.lcml")
    return Undisturbed(model, points(directory / "mlruns/mlflow.db"), made - making, trained - made)


def is_killed(directory: Path, beginning: str, seconds: float) -> bool:
    """Start a training and kill it so long after it prints a line that begins so; whether it had not ended by then."""
    with started(directory) as process:
        wait_for(process, beginning)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
    return process.returncode == -signal.SIGKILL


def resumed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Go on from the checkpoint or, where the training died before it wrote one, begin again; whether it went on."""
    monkeypatch.chdir(directory)
    kept = [str(path) for path in Path("checkpoints").glob("*.checkpoint")]
    output(*(("train", "--resume", *kept, "--json") if kept else TRAIN), *store(directory))
    return bool(kept)


@pytest.mark.parametrize("number", range(N_MAKING + N_TRAINING))
def test_a_killed_training_goes_on_to_the_same_model(
    number: int, undisturbed: Undisturbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beginning, longest = ("making", undisturbed.making) if number < N_MAKING else ("made", undisturbed.training)
    seconds, directory = random.Random(number).uniform(0, longest), tmp_path / "0"
    while not is_killed(directory, beginning, seconds):
        seconds, directory = seconds / 2, tmp_path / str(seconds)
    went_on = resumed(directory, monkeypatch)
    assert content(directory / "digits.lcml", tmp_path / "bare.lcml") == undisturbed.model
    assert points(Path("mlruns/mlflow.db")) == undisturbed.points
    others = rows(Path("mlruns/mlflow.db"), "select status from runs where status != 'FINISHED'")
    assert others in ([], [] if went_on else [("KILLED",)])  # what was begun and left
    assert sorted(path.name for path in Path("mlruns").glob("*mlflow.db*")) == [".mlflow.db.lock", "mlflow.db"]
