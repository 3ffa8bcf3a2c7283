"""What a model adds column by column, and pair by pair: its logit as a sum of functions of few columns.

    logit_k(x) = bias_k + sum over terms t of f_tk(the columns of t)

A term is the set of columns that the conditions of its features mention; of one column it is a curve of the additive
part, of two an interaction. Every feature is of one term, those without a column (they always hold) of the empty one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lcml.arrays import FloatArray
from lcml.explain.contributions import feature_values
from lcml.explain.groups import feature_groups, group_columns
from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml.model.model import LogisticCircuit


@dataclass(frozen=True)
class Term:
    """The features about these columns, by their numbers among all."""

    columns: tuple[int, ...]
    features: tuple[int, ...]


def model_terms(model: LogisticCircuit) -> list[Term]:
    """All terms of a model over whole examples, those of fewer columns first."""
    found: dict[tuple[int, ...], list[int]] = {}
    for group in feature_groups(model):
        found.setdefault(group_columns(model, group), []).extend(group.features)
    return [Term(columns, tuple(found[columns])) for columns in sorted(found, key=lambda c: (len(c), c))]


def term_values(model: LogisticCircuit, terms: Sequence[Term], values: FloatArray) -> Iterator[FloatArray]:
    """What every term adds, (n_examples, n_sets), for features (n_examples, n_features)."""
    for term in terms:
        features = list(term.features)
        yield values[:, features] @ model.weights[:, features].T


@dataclass(frozen=True)
class Axis:
    """Where a column is looked at. codes: numbers, days, or places of categories; NaN for a gap. texts: of what has
    no order in numbers, one per code, else empty."""

    codes: FloatArray
    texts: tuple[str, ...] = ()


def column_axis(model: LogisticCircuit, column: int) -> Axis:
    """The codes between which all that the model makes of a column is linear: knots, and both sides of steps and
    thresholds; every category, rank and gap."""
    encoder = model.encoder
    if isinstance(encoder, ColumnsEncoder):
        return _axis(encoder.columns[column])
    if isinstance(encoder, BooleanEncoder):
        return Axis(_both_sides(encoder.threshold[column : column + 1], encoder.threshold[column] + np.array([-1, 1])))
    assert isinstance(encoder, ScaleEncoder)
    return Axis(np.unique([encoder.low[column], encoder.high[column]]))


def _axis(column: Column) -> Axis:
    gap = [np.nan] if column.gaps or len(column.knots) == 1 else []
    if not column.is_text:
        return Axis(np.concatenate([_both_sides(column.steps, column.knots), gap]))
    texts = [*column.categories, *(["another"] if column.kind == "category" else []), *(["missing"] if gap else [])]
    codes = np.arange(len(texts) - len(gap), dtype=np.float64)
    return Axis(np.concatenate([codes, gap]), tuple(texts))


def _both_sides(steps: FloatArray, others: FloatArray) -> FloatArray:
    return np.unique(np.concatenate([others, steps, np.nextafter(steps, -np.inf)]))


def term_at(model: LogisticCircuit, term: Term, codes: FloatArray) -> FloatArray:
    """(n, n_sets) what a term adds where its columns have the codes (n, n_columns of the term)."""
    encoder = model.encoder
    n = len(codes)
    every = np.zeros((n, encoder.n_features))
    every[:, list(term.columns)] = codes
    x: Any = encoder.examples(every) if isinstance(encoder, ColumnsEncoder) else every
    return next(term_values(model, [term], feature_values(model, x)))
