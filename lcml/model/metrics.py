"""How good predictions are: accuracy, macro F1, log-loss, calibration, and the confusion matrix."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.model.head import HEADS, THRESHOLD, Link, predicted_codes

_LEAST = np.finfo(np.float64).tiny
"""What stands for a probability or number of examples of 0 that is divided by, or of which the logarithm is taken."""


@dataclass(frozen=True)
class Quality:
    """accuracy: share of right labels; f1_macro: mean of 2 TP / (2 TP + FP + FN) over the classes that occur or
    are predicted; log_loss: mean of -log p(true class), natural logarithm; ece: `calibration_error`, None where it was
    not asked for. Shares and means are of the example weights, where there are any."""

    accuracy: float
    f1_macro: float
    log_loss: float
    ece: float | None = None

    def rank(self, metric: Literal["accuracy", "f1-macro", "log-loss"]) -> tuple[float, float]:
        """Larger is better; equal accuracies or F1 are told apart by the log-loss."""
        first = {"accuracy": self.accuracy, "f1-macro": self.f1_macro, "log-loss": -self.log_loss}[metric]
        return first, -self.log_loss


def confusion_matrix(
    predicted: NDArray[np.int64], labels: NDArray[np.int64], n_classes: int, weights: NDArray[np.floating] | None = None
) -> NDArray[Any]:
    """(n_classes, n_classes) counts, or sums of weights: row the true class, column the predicted one."""
    return np.bincount(labels * n_classes + predicted, weights, n_classes**2).reshape(n_classes, n_classes)


def quality(
    logits: FloatArray,
    labels: NDArray[np.int64],
    n_classes: int,
    link: Link,
    weights: NDArray[np.floating] | None = None,
    threshold: float = THRESHOLD,
    *,
    calibration: bool = True,
) -> Quality:
    """The quality of logits (n_examples, n_sets) for labels (n_examples,), which count as often as weights say."""
    matrix = confusion_matrix(predicted_codes(logits, threshold), labels, n_classes, weights)
    true_positive = np.diag(matrix).astype(np.float64)
    of_class = matrix.sum(axis=0) + matrix.sum(axis=1)
    f1 = 2 * true_positive[of_class > 0] / of_class[of_class > 0]
    probabilities = HEADS[link].probabilities(logits)
    log_loss = float(np.average(_losses(probabilities, labels), weights=weights))
    ece = calibration_error(probabilities, labels, weights) if calibration else None
    return Quality(float(true_positive.sum() / matrix.sum()), float(f1.mean()), log_loss, ece)


N_BINS = 15


def calibration_error(
    probabilities: FloatArray, labels: NDArray[np.int64], weights: NDArray[np.floating] | None = None
) -> float:
    """The expected calibration error of probabilities (n_examples, n_classes),

        sum_b W_b / W | right_b - said_b |

    over 15 bins, the b-th of the examples whose largest probability is above (b - 1) / 15 and at most b / 15: W_b is
    the weight of these, right_b the share of it where the class of that probability is the label, said_b the mean of
    the probability. Source: Guo et al., On Calibration of Modern Neural Networks, ICML 2017, equation 3.
    """
    said, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    counts = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    bins = np.clip(np.ceil(said * N_BINS).astype(np.intp) - 1, 0, N_BINS - 1)
    return float(np.abs(np.bincount(bins, counts * (right - said), N_BINS)).sum() / counts.sum())


def right_and_lost(
    logits: FloatArray,
    labels: NDArray[np.int64],
    link: Link,
    weights: NDArray[np.floating],
    threshold: float = THRESHOLD,
) -> FloatArray:
    """(2,) what accuracy and log-loss are means of, as sums: the weights of examples predicted right, and the weighted
    -log p(true class) of all."""
    right = predicted_codes(logits, threshold) == labels
    losses = _losses(HEADS[link].probabilities(logits), labels)
    return np.array([weights[right].sum(), (losses * weights).sum()])


def _losses(probabilities: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
    """(n_examples,) -log p(true class)."""
    losses: FloatArray = -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], _LEAST))
    return losses
