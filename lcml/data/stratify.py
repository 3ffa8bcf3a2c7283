"""Classes in proportion: a part of the examples with every class as in all, and weights that make them equal."""

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray


def balanced_weights(codes: NDArray[np.int64], weights: FloatArray | None = None) -> FloatArray:
    """(n_classes,) n / (n_classes n_k): with it, each class counts as much as every other. n_k: the examples with code
    k, each as often as `weights` (n,) say."""
    counts = np.bincount(codes, weights).astype(np.float64)
    return np.asarray(counts.sum() / (len(counts) * counts))


def apportion(counts: NDArray[np.int64], fraction: float, least: int = 0, leave: int = 0) -> NDArray[np.int64]:
    """How many examples of each class make up round(fraction * n) of them: the largest-remainder method.

    Ties go to the first class. Every class then gives at least `least` and keeps at least `leave`, so the sum may
    differ a little from the wanted one.
    """
    quota = fraction * counts
    chosen = np.floor(quota).astype(np.int64)
    n_short = max(0, round(fraction * int(counts.sum())) - int(chosen.sum()))
    chosen[np.argsort(chosen - quota, kind="stable")[:n_short]] += 1
    return np.asarray(np.clip(chosen, least, counts - leave))


def draw(
    codes: NDArray[np.int64], n_chosen: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions (the others, the chosen ones), ascending: `n_chosen[k]` of the examples with code k, at random."""
    chosen = np.zeros(len(codes), bool)
    for k, n in enumerate(n_chosen):
        chosen[rng.permutation(np.flatnonzero(codes == k))[:n]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def set_aside(codes: NDArray[np.int64], fraction: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to fit by and rows to choose by; all rows for both where none can be spared."""
    every = np.arange(len(codes))
    if fraction == 0:
        return every, every
    n_aside = apportion(np.bincount(codes), fraction, least=1, leave=1)
    rest, aside = draw(codes, n_aside, np.random.default_rng(seed))
    return (rest, aside) if len(aside) else (every, every)
