"""Which features made a prediction what it is: the k largest contributions to its logit, in words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml_serving.errors import BadRequestError, NotFoundError, short
from lcml_serving.models import OnnxModel

DEFAULT_TOP_K = 10


def explainable(model: OnnxModel) -> Sequence[str]:
    """The conditions of the model's contributions. Raises NotFoundError where it has none."""
    if model.conditions is None:
        raise NotFoundError(
            f"model {model.signature.name!r} has no explanations; export it with --explain, keep its sidecar beside it"
        )
    return model.conditions


def top_k_of(parameters: Mapping[str, Any]) -> int:
    """The request parameter top_k. Raises BadRequestError."""
    top_k = parameters.get("top_k", DEFAULT_TOP_K)
    if type(top_k) is not int or top_k < 1:
        raise BadRequestError(f"parameters.top_k: expected a whole number from 1, found {short(top_k)}")
    return top_k


def explain_rows(
    conditions: Sequence[str], labels: NDArray[Any], contributions: NDArray[Any], top_k: int
) -> list[dict[str, Any]]:
    """Per row: label, logit = bias + the contributions shown + rest, and those shown, largest magnitude first.

    `contributions` is (rows, len(conditions)) with the bias last. Sums are in float64; exact zeros are not shown.
    """
    rows = []
    for label, row in zip(labels.tolist(), contributions, strict=True):
        features, bias = row[:-1].astype(np.float64), float(row[-1])
        order = _largest(np.abs(features), top_k)
        logit = float(features.sum()) + bias
        shown = [
            {"index": int(index), "condition": conditions[index], "contribution": float(features[index])}
            for index in order
        ]
        rest = logit - bias - float(features[order].sum())
        rows.append({"label": label, "logit": logit, "bias": bias, "rest": rest, "contributions": shown})
    return rows


def _largest(magnitudes: NDArray[np.float64], top_k: int) -> NDArray[np.intp]:
    """Places of the `top_k` largest magnitudes above 0, largest first, equal ones in order."""
    places = np.flatnonzero(magnitudes)  # few: most conditions of a circuit are false
    if len(places) > top_k:
        smallest = np.partition(magnitudes[places], -top_k)[-top_k]
        places = places[magnitudes[places] >= smallest]
    return places[np.argsort(-magnitudes[places], kind="stable")][:top_k]
