"""The data a model is used on: read as it was trained, and divided as its training divided it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from lcml.data import DataSplits, Examples, load_examples, load_rows, load_splits
from lcml.data.load import RowsName, SplitName
from lcml.errors import DataError, SettingsError
from lcml.explain.names import known_names
from lcml.inputs.columns import ColumnsEncoder
from lcml.model.model import LogisticCircuit

_DIVISION = {"seed": int, "valid_fraction": float, "test_fraction": float, "train_fraction": float}


def read_examples(
    model: LogisticCircuit, data: str, *, target: str | None = None, data_dir: str | None, require_labels: bool = True
) -> Examples:
    """Examples of `data` for `model`, labels as positions among its classes: the test examples of a set that has a name
    or test examples of its own, by the training's division, else the whole file.

    Raises what `lcml.data.load_examples` raises.
    """
    return load_examples(data, **_options(model, target, data_dir), require_labels=require_labels)


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples to measure a model by. which: rows of the data these are; new: whether they are of other data than the
    model was trained on; warning: where they may have trained it all the same, a sentence that says so."""

    examples: Examples
    which: RowsName
    new: bool
    warning: str | None = None


def rows_to_measure(
    model: LogisticCircuit, data: str, rows: str | None, *, target: str | None = None, data_dir: str | None = None
) -> Rows:
    """The rows of `data` called `rows`: train, valid or test of the training's division, or all of them.

    Without `rows` the test rows, where the data are those that the model was trained on (told by their fingerprint) or
    have test examples of their own, else all. Where rows may have trained the model, the warning says so. Raises
    SettingsError for other names, DataError where there are no such rows, and what `lcml.data.load_examples` raises.
    """
    if rows is not None and rows not in get_args(RowsName):
        raise SettingsError(f"rows: expected one of {', '.join(get_args(RowsName))}, found {rows!r}")
    options = _options(model, target, data_dir)
    try:
        splits = trained_splits(model, data, target, data_dir)
    except DataError:
        return _of_other_data(model, data, rows, options)
    n_seen = len(splits.train) + len(splits.valid)
    if rows == "all" or (rows is None and not len(splits.test)):
        every, _ = load_rows(data, **options, split="all")
        return Rows(every, "all", False, _SEEN.format(f"{n_seen} of these {len(every)} rows"))
    which = cast("SplitName", rows or "test")
    part: Examples = getattr(splits, which)
    if not len(part):
        raise DataError(f"{splits.source} was trained on without {which} examples; choose other --rows")
    return Rows(part, which, False, None if which == "test" else _SEEN.format("these rows"))


def _of_other_data(model: LogisticCircuit, data: str, rows: str | None, options: Mapping[str, Any]) -> Rows:
    trained_on = model.facts("data")
    if rows not in (None, "all"):
        raise DataError(
            f"{data} is not what the model was trained on ({trained_on.get('name', 'unknown')}), so it has no {rows} "
            "rows; leave --rows out to take all that is meant for testing"
        )
    examples, which = load_rows(data, **options, split="test" if rows is None else "all")
    return Rows(examples, which, True, None if "fingerprint" in trained_on else _UNKNOWN)


_SEEN = "{} trained the model or chose it: the figure is not one of new examples"
_UNKNOWN = "the model does not say which rows trained it: these may be among them, and the figure too good"


def trained_splits(model: LogisticCircuit, data: str, target: str | None, data_dir: str | None) -> DataSplits:
    """The division of the data that the model was trained on. DataError for others, whose test rows would train."""
    splits, known = load_splits(data, **_division(model, target, data_dir)), model.facts("data")
    if splits.fingerprint != known.get("fingerprint") or splits.classes != model.classes:
        name = known.get("name", "unknown: the model has no provenance")
        raise DataError(
            f"{data} is not what the model was trained on ({name}), so which of its rows are for the test is not "
            "known; give the data trained on"
        )
    return splits


def _options(model: LogisticCircuit, target: str | None, data_dir: str | None) -> dict[str, Any]:
    """How `lcml.data.load_rows` reads data for the model."""
    gaps = model.missing is not None
    columns = model.encoder.columns if isinstance(model.encoder, ColumnsEncoder) else ()
    texts = [column.name for column in columns if column.was_text]
    of_model = {"classes": model.classes, "feature_names": known_names(model), "gaps": gaps, "texts": texts}
    return of_model | _division(model, target, data_dir)


def _division(model: LogisticCircuit, target: str | None, data_dir: str | None) -> dict[str, Any]:
    """How the training read and divided its data, or would those in `data_dir`."""
    known = model.facts("data")
    division = {name: kind(known[name]) for name, kind in _DIVISION.items() if isinstance(known.get(name), int | float)}
    return {"target": known.get("target") if target is None else target, "data_dir": data_dir, **division}
