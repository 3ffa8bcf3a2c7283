"""Edits of single conditions by hand: dropped, or given another weight, and recorded in the model's provenance."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from lcml.errors import SettingsError
from lcml.explain.contributions import feature_conditions
from lcml.model.model import LogisticCircuit

EDITS = "edits"
"""The list of all edits in a provenance."""


def edited(model: LogisticCircuit, drop: Sequence[str] = (), edit: Sequence[str] = ()) -> LogisticCircuit:
    """The model without some conditions, and with other weights of some.

    drop: conditions as `lcml.explain.contributions.feature_conditions` words them; edit: CONDITION=WEIGHT, where there
    are several weight sets CLASS: CONDITION=WEIGHT. Features under one condition share it: the first gets the weight.
    Nothing is fitted. Raises SettingsError for what is no condition, class or number.
    """
    features: dict[str, list[int]] = {}
    for number, text in enumerate(feature_conditions(model)):
        features.setdefault(text, []).append(number)
    weights, records = model.weights.copy(), []

    def found(condition: str) -> list[int]:
        if condition not in features:
            near = get_close_matches(condition, features, n=3, cutoff=0.4)
            hint = (
                f"; near to it: {', '.join(map(repr, near))}" if near else "; lcml inspect --top lists the weightiest"
            )
            raise SettingsError(f"no condition of the model is {condition!r}{hint}")
        return features[condition]

    for condition in drop:
        records.append({"drop": condition, "before": weights[:, found(condition)].sum(axis=1).tolist()})
        weights[:, found(condition)] = 0
    for text in edit:
        row, condition, value = _parsed(model, text)
        own = found(condition)
        label = model.classes[row] if len(weights) > 1 else model.classes[1]
        before = float(weights[row, own].sum())
        records.append({"edit": condition, "class": label, "before": before, "after": value})
        weights[row, own] = 0
        weights[row, own[0]] = value
    known = model.provenance.get(EDITS)
    provenance: dict[str, Any] = {**model.provenance, EDITS: [*(known if isinstance(known, list) else []), *records]}
    carries = None if model.carries is None else model.carries | np.any(weights != 0, axis=0)
    return replace(model, weights=weights, provenance=provenance, carries=carries)


def _parsed(model: LogisticCircuit, text: str) -> tuple[int, str, float]:
    """The weight set, the condition and the weight that an edit says."""
    condition, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = np.nan
    if not condition or not np.isfinite(value):
        raise SettingsError(f"edit: expected CONDITION=WEIGHT with a finite number, found {text!r}")
    if len(model.bias) == 1:
        return 0, condition.strip(), value
    label, _, condition = condition.partition(": ")
    codes = [code for code, name in enumerate(model.classes) if str(name) == label.strip()]
    if not codes:
        some = ", ".join(map(str, model.classes[:12]))
        raise SettingsError(f"edit: expected CLASS: CONDITION=WEIGHT with a class of {some}, found {text!r}")
    return codes[0], condition.strip(), value
