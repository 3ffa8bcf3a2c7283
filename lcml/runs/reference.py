"""What a model was trained on, as far as it takes to see later that its inputs have changed: shares of bins.

A number's or date's bins lie between its inner knots (of few: between all), the first below and the last above them,
then that of gaps; a category's are its most frequent categories, that of all others, then that of gaps.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Backend
from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.rows import Matrix
from lcml.model.model import LogisticCircuit

MOST_COLUMNS, MOST_CATEGORIES = 256, 50
"""That have bins."""

_MOST_ROWS = 4096
"""That tell the shares: noise adds about a column's bins / 4096 to its index, of which 0.1 is worth a look."""

_FEW_KNOTS, _DIGITS = 3, 6


def with_reference(model: LogisticCircuit, features: Matrix, backend: Backend) -> LogisticCircuit:
    """The model with the `reference` of these training features in its provenance."""
    return replace(model, provenance={**model.provenance, "reference": reference(model, features, backend)})


def reference(model: LogisticCircuit, features: Matrix, backend: Backend) -> dict[str, Any]:
    """Shares of the bins of every column of a table among raw training features, and of the classes predicted there."""
    rows = features[:: max(1, -(-len(features) // _MOST_ROWS))]
    counts = np.bincount(model.codes(model.logits(rows, backend)), minlength=len(model.classes))
    shares = zip(model.classes, counts / max(len(rows), 1), strict=True)
    told: dict[str, Any] = {"classes": {str(name): _short(share) for name, share in shares}}
    if isinstance(model.encoder, ColumnsEncoder):
        columns = zip(model.encoder.columns[:MOST_COLUMNS], model.encoder.codes(rows).T, strict=False)
        told["columns"] = [_of_column(*one) for one in columns]
    return told


def _of_column(column: Column, codes: NDArray[np.float64]) -> dict[str, Any]:
    gap, told = np.isnan(codes), dict[str, Any](name=column.name)
    if column.is_text:
        counts = np.bincount(codes[~gap].astype(np.intp), minlength=len(column.categories) + 1)
        shown = np.argsort(-counts[:-1], kind="stable")[:MOST_CATEGORIES]
        told["categories"] = [column.categories[place] for place in shown]
        counts = np.array([*counts[shown], counts.sum() - counts[shown].sum()])
    else:
        edges = column.knots[1:-1] if len(column.knots) > _FEW_KNOTS else column.knots
        told["edges"] = edges.tolist()
        counts = np.bincount(np.searchsorted(edges, codes[~gap], side="right"), minlength=len(edges) + 1)
    return told | {"shares": [_short(count / max(len(codes), 1)) for count in (*counts, gap.sum())]}


def _short(share: float) -> float:
    return round(float(share), _DIGITS)
