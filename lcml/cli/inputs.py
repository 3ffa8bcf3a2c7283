"""The data a model is used on: read as it was trained, and divided as its training divided it."""

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from lcml.data import Examples, load_examples, load_splits
from lcml.errors import DataError, SettingsError
from lcml.explain.names import known_names
from lcml.model.model import LogisticCircuit

SplitName = Literal["train", "valid", "test"]
_DIVISION = {"seed": int, "valid_fraction": float, "test_fraction": float, "train_fraction": float}


def read_examples(
    model: LogisticCircuit,
    data: str,
    *,
    target: str | None = None,
    data_dir: str | None = None,
    split: str | None = None,
    require_labels: bool = True,
) -> Examples:
    """Examples of `data` for `model`, labels as positions among its classes.

    Without `split`: the test examples of a set that has a name or test examples of its own, else the whole file. With
    it: that part of the training's division. Raises SettingsError for an unknown split, DataError where the data are
    not those of the training but a part of them is asked for, and as `lcml.data.load_examples`.
    """
    trained_on = training_data(model)
    target = target if target is not None else cast("str | None", trained_on.get("target"))
    division: dict[str, Any] = {
        name: kind(trained_on[name])
        for name, kind in _DIVISION.items()
        if isinstance(trained_on.get(name), int | float)
    }
    if split is None:
        return load_examples(
            data,
            classes=model.classes,
            feature_names=known_names(model),
            target=target,
            data_dir=data_dir,
            require_labels=require_labels,
            **division,
        )
    if split not in get_args(SplitName):
        raise SettingsError(f"split: expected one of {', '.join(get_args(SplitName))}, found {split!r}")
    splits = load_splits(data, target=target, data_dir=data_dir, **division)
    fingerprint = trained_on.get("fingerprint", splits.fingerprint)
    if fingerprint != splits.fingerprint or splits.classes != model.classes:
        raise DataError(
            f"{splits.source} is not what the model was trained on ({trained_on.get('name', 'unknown')}), so it has no "
            f"{split} part; leave --split out to take all that is meant for testing"
        )
    part: Examples = getattr(splits, split)
    if not len(part):
        raise DataError(f"{splits.source} was trained on without {split} examples; choose another --split")
    return part


def training_data(model: LogisticCircuit) -> Mapping[str, Any]:
    """What the model's provenance says about its training data; empty where nothing."""
    data = model.provenance.get("data")
    return data if isinstance(data, dict) else {}
