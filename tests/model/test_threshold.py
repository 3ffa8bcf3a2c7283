"""The best threshold against every threshold tried with scikit-learn's metrics; calibration by hand."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from lcml.model.head import predicted_codes
from lcml.model.metrics import calibration_error, quality
from lcml.model.threshold import ThresholdMetric, best_threshold

METRICS = {
    "accuracy": accuracy_score,
    "balanced-accuracy": balanced_accuracy_score,
    "f1": f1_score,
    "f1-macro": lambda *given, **weights: f1_score(*given, average="macro", **weights),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_no_other_threshold_is_better(metric: ThresholdMetric, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(2):
        labels = (rng.random(60) < 0.2).astype(np.int64)
        p = np.asarray(
            np.clip(rng.normal(0.3 + 0.1 * labels, 0.15), 0.01, 0.99).round(2), np.float64
        )  # several have the same
        weights = rng.integers(1, 4, 60).astype(float) if weighted else np.ones(60)

        def reached(threshold: float, p: np.ndarray = p, y: np.ndarray = labels, w: np.ndarray = weights) -> float:
            return float(METRICS[metric](y, (p > threshold).astype(int), sample_weight=w))

        found = best_threshold(p, labels, metric, weights if weighted else None)
        assert reached(found) == pytest.approx(max(reached(t) for t in np.linspace(0.005, 0.995, 100)))


@pytest.mark.parametrize(
    ("p", "labels", "expected"),
    [
        ([0.2, 0.4], [0, 1], 0.3),
        ([0.2, 0.6], [0, 1], 0.5),  # as good as any between them
        ([0.6, 0.8], [0, 1], 0.7),
        ([0.6, 0.6, 0.6], [0, 0, 1], 0.8),  # (0.6 + 1) / 2: nobody is of the second class
        ([0.4, 0.4, 0.4], [1, 1, 0], 0.2),  # 0.4 / 2: everybody is
        ([0.1, 0.9], [1, 1], 0.5),  # one class tells nothing
        ([1.0, 1.0], [0, 1], 0.5),
    ],
)
def test_thresholds_by_hand(p: list[float], labels: list[int], expected: float) -> None:
    assert best_threshold(np.array(p), np.array(labels), "accuracy") == pytest.approx(expected)


def test_codes_under_a_threshold() -> None:
    """The log-odds of 0.8 are log 4."""
    log_odds = np.log(4) + np.array([-0.1, 0.0, 0.1])
    for logits in (log_odds[:, None], np.stack([1 - log_odds, np.ones(3)], axis=1)):
        assert predicted_codes(logits, 0.8)[[0, 2]].tolist() == [0, 1]
        assert predicted_codes(logits).tolist() == [1, 1, 1]


def test_calibration_error_by_hand() -> None:
    """Bins end at 9/15, 11/15 and 15/15. In the first 0.6 and 0.6 are said and one of two is right, in the second 0.7
    is said and right, in the last 0.95, 0.95 and 1 and two are right: (|0.5 - 0.6| 2 + 0.3 + |2 - 2.9|) / 6."""
    top = np.array([0.6, 0.6, 0.7, 0.95, 0.95, 1.0])
    right = np.array([True, False, True, True, False, True])
    probabilities = np.stack([top, 1 - top], axis=1)
    labels = np.where(right, 0, 1)
    assert calibration_error(probabilities, labels) == pytest.approx((0.2 + 0.3 + 0.9) / 6)
    weights = np.array([1.0, 1, 2, 1, 1, 1])
    assert calibration_error(probabilities, labels, weights) == pytest.approx((0.2 + 0.6 + 0.9) / 7)
    logits = np.log(np.maximum(probabilities, 1e-300))
    assert quality(logits, labels, 2, "softmax").ece == pytest.approx((0.2 + 0.3 + 0.9) / 6)
    assert quality(logits, labels, 2, "softmax", threshold=0.3).accuracy == pytest.approx(3 / 6)
