"""Run one row: a circuit as `lcml train` would, or a baseline, on the same division of the data."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lcml.backend import BackendName, evaluation_precision, get_backend
from lcml.data import DataSplits, load_splits
from lcml.errors import DataError
from lcml.formats import load_model
from lcml.learning.learner import Learner
from lcml.learning.solver import never
from lcml.learning.table_learner import TableLearner
from lcml.model.metrics import quality
from lcml.model.model import LogisticCircuit
from lcml.runs.checkpoint import load_checkpoint
from lcml.runs.config import TrainConfig
from lcml.runs.preparation import Prepared, prepare
from lcml.runs.recipes import recipe_options
from lcml.runs.records import dataset_record
from lcml.runs.reproduce import baselines
from lcml.runs.reproduce.apart import fit_apart
from lcml.runs.reproduce.experiments import MODELS, Row
from lcml.runs.reproduce.results import RowResult, check_same, difference
from lcml.runs.training import OnRound, finishing, train, versions
from lcml.tracking import FINAL, MODEL, Tracker

EXPERIMENT = "reproduce"
"""The experiment of the tracking store that the runs belong to."""

_QUICK_FRACTIONS = {1.0: 0.02, 0.1: 0.01, 0.02: 0.005}
_QUICK_CIRCUIT = {"rounds": 1, "round_iterations": 4, "final_iterations": 4, "l2_path": [1e-3], "score_examples": 1024}


@dataclass(frozen=True)
class Setup:
    """What all rows share. directory: of all results; quick: small shares and few iterations, to try things out;
    tracking_uri: None for the default; models: a directory of trained circuits to take; seed: of data divisions,
    circuits and baselines."""

    directory: Path
    quick: bool = False
    data_dir: str | None = None
    backend: BackendName = "auto"
    no_tracking: bool = False
    tracking_uri: str | None = None
    models: Path | None = None
    seed: int = 0

    def fraction(self, row: Row) -> float:
        """The share of the training images that the row uses."""
        return _QUICK_FRACTIONS[row.fraction] if self.quick else row.fraction


def circuit_config(row: Row, setup: Setup) -> TrainConfig:
    """The training that a circuit's row stands for: its recipe, on that share of that data."""
    assert row.recipe is not None
    options: dict[str, Any] = {name.replace("-", "_"): value for name, value in recipe_options(row.recipe).items()}
    options |= {"encoder": "boolean"} if MODELS[row.model].boolean else {}
    options |= _QUICK_CIRCUIT if setup.quick else {}
    return TrainConfig().with_options(
        options
        | {
            "data": row.data,
            "data_dir": setup.data_dir,
            "train_fraction": setup.fraction(row),
            "seed": setup.seed,
            "backend": setup.backend,
            "output": str(setup.directory / "models" / f"{row.name}.lcml"),
            "no_tracking": setup.no_tracking,
            "tracking_uri": setup.tracking_uri,
            "experiment": None if setup.no_tracking else EXPERIMENT,
            "run_name": None if setup.no_tracking else row.name,
        }
    )


def row_settings(row: Row, setup: Setup) -> dict[str, Any]:
    """All that decides a row: the options of a circuit's training, or the arguments of a baseline and its data."""
    if row.recipe is not None:
        return circuit_config(row, setup).settings()
    return {"train_fraction": setup.fraction(row), "seed": setup.seed, **_arguments(row, setup)}


def prepare_circuit(row: Row, setup: Setup) -> Prepared:
    """Everything in memory for the row's training, from its checkpoint where one is there.

    Raises SettingsError for a checkpoint of other settings, and as `prepare` and `load_checkpoint`.
    """
    config = circuit_config(row, setup)
    path = setup.directory / "checkpoints" / f"{row.name}.checkpoint"
    if not path.exists():
        return prepare(config, None, path)
    checkpoint = load_checkpoint(path)
    before = checkpoint.config
    check_same(path, before.settings(), config.settings())
    same_store = (before.no_tracking, before.tracking_uri) == (config.no_tracking, config.tracking_uri)
    run_id = checkpoint.run_id if same_store else None
    return prepare(config, dataclasses.replace(checkpoint, config=config, run_id=run_id), path)


def run_circuit(
    row: Row,
    setup: Setup,
    prepared: Prepared,
    learner: Learner | TableLearner,
    tracker: Tracker,
    *,
    on_round: OnRound = lambda record: None,
    should_stop: Callable[[], bool] = never,
) -> RowResult | None:
    """Train, save and record the circuit of a row; None where it was stopped, so that it can go on later."""
    outcome = train(prepared, learner, tracker, on_round=on_round, should_stop=should_stop)
    if outcome.stopped:
        return None
    assert outcome.test is not None
    return RowResult(
        **_of_row(row, setup, prepared.splits, prepared.config.settings()),
        n_parameters=outcome.model.n_parameters,
        n_stored=None,
        valid_accuracy=outcome.valid.accuracy,
        test_accuracy=outcome.test.accuracy,
        n_iterations=outcome.rounds,
        converged=outcome.rounds < prepared.config.learn.rounds,
        seconds=outcome.seconds,
        run_id=tracker.run_id,
        machine=_machine() | {"backend": prepared.backend.name, "device": prepared.backend.device},
    )


def trained_model(row: Row, setup: Setup) -> tuple[Path, LogisticCircuit] | None:
    """The model of a circuit's row in setup.models, called as the row or its recipe and trained to its end with the
    row's settings; None where there is none. Raises FormatError for a damaged file."""
    if setup.models is None or row.recipe is None:
        return None
    for path in (setup.models / f"{name}.lcml" for name in (row.name, row.recipe)):
        if path.exists():
            model = load_model(path)
            settings, training = model.facts("settings"), model.facts("training")
            if settings and not training["stopped"] and difference(settings, row_settings(row, setup)) is None:
                return path, model
    return None


def measure(row: Row, setup: Setup, model: LogisticCircuit) -> RowResult:
    """The result of a row from its `trained_model`: the test images are measured here, the rest is the model's record.

    Raises DataError where it was trained on other data.
    """
    splits, settings = _splits(row, setup), row_settings(row, setup)
    origin = model.provenance
    if origin["data"]["fingerprint"] != splits.fingerprint:
        raise DataError(f"{splits.source} is not what the model of {row.name} was trained on; leave --models out")
    precision = evaluation_precision(settings["precision"])
    logits = model.logits(splits.test.features, get_backend(setup.backend), precision)
    training = origin["training"]
    return RowResult(
        **_of_row(row, setup, splits, settings),
        n_parameters=model.n_parameters,
        n_stored=None,
        valid_accuracy=training["valid_accuracy"],
        test_accuracy=quality(logits, splits.test.labels, len(splits.classes), model.link).accuracy,
        n_iterations=training["rounds"],
        converged=training["rounds"] < settings["rounds"],
        seconds=training["seconds"],
        run_id=None,
        machine={name: str(value) for part in ("versions", "machine") for name, value in origin[part].items()},
    )


def run_baseline(
    row: Row, setup: Setup, tracker: Tracker, *, should_stop: Callable[[], bool] = never
) -> RowResult | None:
    """Fit and record the baseline of a row, None where it was stopped."""
    splits, settings, package = _splits(row, setup), row_settings(row, setup), baselines.PACKAGES[row.model]
    tracker.start(
        row.name,
        {"data": row.data, "model": row.model, **settings},
        {"lcml.data": splits.name, "lcml.backend": package, "lcml.device": "cpu"},
        dataset_record(splits),
    )
    with finishing(tracker, lambda: fitted is None):
        fitted = fit_apart(row.model, _arguments(row, setup), splits, setup.seed, should_stop)
        if fitted is not None:
            figures = {name: float(value) for name, value in dataclasses.asdict(fitted).items() if value is not None}
            heads = {name: FINAL if "accuracy" in name else MODEL for name in figures}
            tracker.metrics({heads[name] + name: value for name, value in figures.items()}, 0)
    if fitted is None:
        return None
    return RowResult(
        **_of_row(row, setup, splits, settings),
        **dataclasses.asdict(fitted),
        run_id=tracker.run_id,
        machine=_machine() | {package: version(package)},
    )


def _splits(row: Row, setup: Setup) -> DataSplits:
    return load_splits(row.data, data_dir=setup.data_dir, train_fraction=setup.fraction(row), seed=setup.seed)


def _arguments(row: Row, setup: Setup) -> dict[str, Any]:
    return {**baselines.SETTINGS[row.model], **(baselines.QUICK[row.model] if setup.quick else {})}


def _of_row(row: Row, setup: Setup, splits: DataSplits, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": row.name,
        "quick": setup.quick,
        "settings": settings,
        "fingerprint": splits.fingerprint,
        **splits.sizes,
        "seed": setup.seed,
    }


def _machine() -> dict[str, str]:
    return versions() | {"n_cores": str(os.cpu_count())}
