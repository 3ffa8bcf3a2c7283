"""How sure figures of quality are: intervals of accuracies and areas under the ROC curve, and calibration."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray

Z95 = 1.959963984540054
"""The normal quantile of intervals that hold the truth in 95 of 100 samples."""

_LEAST = np.finfo(np.float64).tiny

BINS = 10
"""Bins of equal width that calibration is drawn in."""


class Interval(NamedTuple):
    """A figure and the ends of its 95% interval; NaN where the sample is too small to tell."""

    value: float
    low: float
    high: float


def wilson(right: int, n: int) -> Interval:
    """The share right / n with Wilson's score interval (E. B. Wilson, JASA 1927), for n > 0:

    (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
    """
    p, squared = right / n, Z95**2 / n
    middle, half = p + squared / 2, Z95 * np.sqrt(p * (1 - p) / n + squared / (4 * n))
    low, high = (middle - half) / (1 + squared), (middle + half) / (1 + squared)
    return Interval(p, max(0.0, float(low)), min(1.0, float(high)))


def mean_interval(values: FloatArray) -> Interval:
    """The mean of values (n,) +- z standard errors; no ends for n = 1."""
    mean, n = float(values.mean()), len(values)
    half = Z95 * float(values.std(ddof=1)) / np.sqrt(n) if n > 1 else np.nan
    return Interval(mean, mean - half, mean + half)


def log_loss(of_truth: FloatArray) -> Interval:
    """The mean of -log p over the probabilities (n,) of the true classes, +- z standard errors."""
    return mean_interval(-np.log(np.maximum(of_truth, _LEAST)))


def auc_intervals(probabilities: FloatArray, labels: NDArray[np.int64]) -> tuple[Interval, dict[int, Interval]]:
    """The area under the ROC curve of every class against all others, and the mean of these.

    Intervals are +- z sqrt(sum_i phi_i^2), phi_i what example i adds to the error of the area: DeLong's variance
    (DeLong et al., Biometrics 1988), where the phi of a mean are the mean of the phi. probabilities (n_examples,
    n_classes). Of two classes only the second is there. A class that no example is of, or all are, has no area. Areas
    of exactly 1, whose phi are 0, have no ends, as those of a class with a single example.
    """
    found, sums = {}, np.zeros(len(labels))
    for code in (1,) if probabilities.shape[1] == 2 else range(probabilities.shape[1]):
        truth = labels == code
        if truth.any() and not truth.all():
            area, phi = _delong(truth, probabilities[:, code])
            found[code], sums = _area(area, phi), sums + phi
    if not found:
        return Interval(np.nan, np.nan, np.nan), {}
    mean = float(np.mean([one.value for one in found.values()]))
    return _area(mean, sums / len(found)), found


def _area(value: float, phi: FloatArray) -> Interval:
    half = Z95 * float(np.sqrt(np.square(phi).sum())) or np.nan
    return Interval(value, float(np.maximum(0.0, value - half)), float(np.minimum(1.0, value + half)))


def _delong(truth: NDArray[np.bool_], scores: FloatArray) -> tuple[float, FloatArray]:
    """The area, and (n_examples,) phi: a positive's is (share of negatives below it - area) / sqrt(m (m - 1))."""
    phi, area = np.zeros(len(scores)), 0.0
    for own, sign in ((truth, 1), (~truth, -1)):
        others = np.sort(sign * scores[~own])
        mine = sign * scores[own]
        below = (np.searchsorted(others, mine) + np.searchsorted(others, mine, "right")) / (2 * len(others))
        area, m = float(below.mean()), len(mine)
        phi[own] = (below - area) / np.sqrt(m * (m - 1)) if m > 1 else np.nan
    return area, phi


class Calibration(NamedTuple):
    """Of every bin that is not empty: the mean of what was said, the share that was right, how many."""

    said: FloatArray
    right: FloatArray
    sizes: NDArray[np.int64]


def calibration(probabilities: FloatArray, labels: NDArray[np.int64]) -> Calibration:
    """How often what is said with a probability is right, in BINS bins of that probability: of the second of two
    classes, of more the one predicted."""
    if probabilities.shape[1] == 2:
        said, right = probabilities[:, 1], labels == 1
    else:
        said, right = probabilities.max(axis=1), labels == probabilities.argmax(axis=1)
    bins = np.minimum((said * BINS).astype(int), BINS - 1)
    sizes = np.bincount(bins, minlength=BINS)
    kept = sizes > 0
    means, shares = (np.bincount(bins, values, BINS)[kept] / sizes[kept] for values in (said, right))
    return Calibration(means, shares, sizes[kept])
