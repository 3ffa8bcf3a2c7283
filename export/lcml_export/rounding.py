"""Weights as integers with a scale per set: what a file saves, and how far it may move a model."""

from typing import Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.errors import SettingsError

Precision: TypeAlias = Literal["float32", "int16", "int8"]

FLOAT32: Precision = "float32"


def chosen_precision(asked: str) -> Precision:
    """SettingsError where it is none."""
    if asked not in get_args(Precision):
        raise SettingsError(f"unknown precision {asked!r}: expected one of {', '.join(get_args(Precision))}")
    return cast(Precision, asked)


def rounded(weights: FloatArray, precision: Precision, axis: int) -> tuple[NDArray[np.signedinteger], FloatArray]:
    """Integers of the shape of `weights` (n_sets, n) or (n, n_sets), `axis` of the sets, and a scale per set: a weight
    is integer * scale but for half a scale.

    Symmetric about 0, which stays 0: the largest |weight| of a set becomes the largest integer of the type.
    """
    scale = np.abs(weights).max(axis=1 - axis, keepdims=True, initial=0) / np.iinfo(precision).max
    scale[scale == 0] = 1.0
    return np.rint(weights / scale).astype(precision), scale
