"""The probability of the second of two classes from which on it is predicted: the best one for a metric.

With TP, FP, FN, TN the weights of examples that are predicted right or wrong, the second class the positive one:

    accuracy            (TP + TN) / (TP + FP + FN + TN)
    balanced-accuracy   (TP / (TP + FN) + TN / (TN + FP)) / 2
    f1                  2 TP / (2 TP + FP + FN)
    f1-macro            the mean of that and 2 TN / (2 TN + FP + FN)
"""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.model.head import THRESHOLD

ThresholdMetric: TypeAlias = Literal["accuracy", "balanced-accuracy", "f1", "f1-macro"]

_TOLERANCE = 1e-12  # sums of weights in another order differ by less


def best_threshold(
    probabilities: FloatArray,
    labels: NDArray[np.int64],
    metric: ThresholdMetric,
    weights: NDArray[np.floating] | None = None,
) -> float:
    """Above 0 and below 1: of the thresholds halfway between the probabilities (n,) of the second class, below the
    least, above the largest, and 1/2, that of the largest metric; of equal ones the nearest to 1/2.

    An example is predicted as the second class where its probability is larger. 1/2 where the labels (n,), 0 or 1, are
    all of one class: they tell nothing of the other.
    """
    counts = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    values, place = np.unique(probabilities, return_inverse=True)
    of_class = np.array([np.bincount(place, counts * (labels == code), len(values)) for code in (0, 1)])
    total = of_class.sum(axis=1)
    if not total.all():
        return THRESHOLD
    thresholds = np.array([values[0] / 2, *(values[1:] + values[:-1]) / 2, (values[-1] + 1) / 2, THRESHOLD])
    least, most = np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg
    thresholds = np.clip(thresholds, least, most)
    below = np.searchsorted(values, thresholds, side="right")
    negatives, missed = np.concatenate([np.zeros((2, 1)), np.cumsum(of_class, axis=1)], axis=1)[:, below]
    found = _metric(metric, total[1] - missed, total[0] - negatives, missed, negatives)
    best = np.flatnonzero(found >= found.max() - _TOLERANCE)
    return float(thresholds[best[np.abs(thresholds[best] - THRESHOLD).argmin()]])


def _metric(metric: ThresholdMetric, tp: FloatArray, fp: FloatArray, fn: FloatArray, tn: FloatArray) -> FloatArray:
    if metric == "accuracy":
        return (tp + tn) / (tp + fp + fn + tn)
    if metric == "balanced-accuracy":
        return (tp / (tp + fn) + tn / (tn + fp)) / 2
    f1 = 2 * tp / (2 * tp + fp + fn)
    return f1 if metric == "f1" else (f1 + 2 * tn / (2 * tn + fp + fn)) / 2
