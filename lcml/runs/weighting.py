"""How much the examples of an array count: weights that are given, those of classes, and of what is there twice."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lcml.arrays import FloatArray
from lcml.data import Examples
from lcml.data.stratify import balanced_weights, set_aside
from lcml.errors import DataError, SettingsError
from lcml.inputs.rows import chunks
from lcml.inputs.table import Table

_DIGEST_BYTES = 16
"""Of a row: among 10^12 rows any two that differ share one with a chance of 10^-15. Rows themselves, of a sparse
matrix, would fill the memory."""


def example_weights(weights: ArrayLike | None, n_examples: int) -> FloatArray | None:
    """The weights as (n_examples,) numbers of 0 or more."""
    if weights is None:
        return None
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n_examples,) or not np.all(np.isfinite(array)) or np.any(array < 0):
        raise DataError(
            f"sample_weight: expected {n_examples} finite numbers of 0 or more, found an array of shape {array.shape}"
        )
    if not np.any(array > 0):
        message = "sample_weight: all weights are zero; give at least one example of every class a positive weight"
        raise DataError(message)
    return array


def class_weights(
    asked: Mapping[Any, float] | str | None, classes: NDArray[Any], codes: NDArray[np.int64], weights: FloatArray | None
) -> FloatArray | None:
    """(n_classes,) how much an example of each class counts beside its own weight; None where all count the same.

    asked: by class, 1 where none is given, or "balanced". SettingsError for other classes, and what is not above 0.
    """
    if asked is None or isinstance(asked, str):
        return None if asked is None else balanced_weights(codes, weights)
    if unknown := [name for name in asked if name not in classes]:
        raise SettingsError(f"class_weight: {unknown[0]!r} is none of the classes in y")
    by_class = np.array([asked.get(name, 1.0) for name in classes.tolist()], np.float64)
    if not (np.isfinite(by_class).all() and (by_class > 0).all()):
        raise SettingsError(f"class_weight: expected finite numbers above 0, found {dict(asked)}")
    return by_class


def merged(
    examples: Examples, weights: FloatArray | None
) -> tuple[Examples, FloatArray | None, NDArray[np.int64] | None]:
    """Equal examples of one class as a single one of the sum of their weights, and how many each stands for.

    Where some are equal, or weights differ from 1, they stand in an order that follows from their content alone: then
    weights and repeated examples, in whatever order, are the same.
    """
    place: dict[tuple[bytes, int], int] = {}
    matrix = examples.features.values if isinstance(examples.features, Table) else examples.features
    rows = (row for chunk in chunks(matrix) for row in matrix[chunk])
    digests = (blake2b(row.tobytes(), digest_size=_DIGEST_BYTES).digest() for row in rows)
    which = [place.setdefault(key, len(place)) for key in zip(digests, examples.labels.tolist(), strict=True)]
    if len(place) == len(which) and (weights is None or np.all(weights == 1)):
        return examples, weights, None
    order = np.array([place[key] for key in sorted(place)])
    first = np.unique(which, return_index=True)[1]
    return (
        examples.select(first[order]),
        np.bincount(which, weights).astype(np.float64)[order],
        np.bincount(which)[order],
    )


def divided(
    examples: Examples, weights: FloatArray | None, repeats: NDArray[np.int64] | None, fraction: float, seed: int
) -> tuple[Examples, FloatArray | None, NDArray[np.intp], NDArray[np.intp]]:
    """The examples and their weights, and the rows to fit by and to choose by, as `set_aside` draws them.

    An example that stands for `1 / fraction` equal ones or more is twice among what is returned, once to fit and once
    to choose by, each with its share of the weight: as about as many of them would have been drawn.
    """
    is_often = None if repeats is None else repeats * fraction >= 1
    if weights is None or is_often is None or not is_often.any():
        return examples, weights, *set_aside(examples.labels, fraction, seed)
    seldom, often, n = np.flatnonzero(~is_often), np.flatnonzero(is_often), len(weights)
    rest, aside = set_aside(examples.labels[seldom], fraction, seed)
    if aside is rest:  # none can be spared, and others are there to choose by
        aside = rest[:0]
    every = np.concatenate([np.arange(n), often])
    shares = np.concatenate([np.where(is_often, 1 - fraction, 1.0), np.full(len(often), fraction)])
    rest, aside = np.concatenate([seldom[rest], often]), np.concatenate([seldom[aside], np.arange(n, len(every))])
    return examples.select(every), weights[every] * shares, rest, aside


def joined_weights(first: FloatArray | None, second: FloatArray | None, n_examples: int) -> FloatArray | None:
    """The weights of n_examples of which the first have those of `first`, and all others 1 where `second` is None."""
    if first is None:
        return None
    rest = np.ones(n_examples - len(first)) if second is None else second
    return np.concatenate([first, rest])[:n_examples]
