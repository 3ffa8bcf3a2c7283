"""How good predictions are: accuracy, macro F1, log-loss, and the confusion matrix."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.model.head import HEADS, Link, predicted_codes

_LEAST = np.finfo(np.float64).tiny
"""What stands for a probability or number of examples of 0 that is divided by, or of which the logarithm is taken."""


@dataclass(frozen=True)
class Quality:
    """accuracy: share of right labels; f1_macro: mean of 2 TP / (2 TP + FP + FN) over the classes that occur or
    are predicted; log_loss: mean of -log p(true class), natural logarithm. Shares and means are of
    the example weights, where there are any."""

    accuracy: float
    f1_macro: float
    log_loss: float

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
) -> Quality:
    """The quality of logits (n_examples, n_sets) for labels (n_examples,), which count as often as weights say."""
    matrix = confusion_matrix(predicted_codes(logits), labels, n_classes, weights)
    true_positive = np.diag(matrix).astype(np.float64)
    of_class = matrix.sum(axis=0) + matrix.sum(axis=1)
    f1 = 2 * true_positive[of_class > 0] / of_class[of_class > 0]
    log_loss = float(np.average(_losses(logits, labels, link), weights=weights))
    return Quality(float(true_positive.sum() / matrix.sum()), float(f1.mean()), log_loss)


def right_and_lost(
    logits: FloatArray, labels: NDArray[np.int64], link: Link, weights: NDArray[np.floating]
) -> FloatArray:
    """(2,) what accuracy and log-loss are means of, as sums: the weights of examples predicted right, and the weighted
    -log p(true class) of all."""
    right = predicted_codes(logits) == labels
    return np.array([weights[right].sum(), (_losses(logits, labels, link) * weights).sum()])


def _losses(logits: FloatArray, labels: NDArray[np.int64], link: Link) -> FloatArray:
    """(n_examples,) -log p(true class)."""
    p = HEADS[link].probabilities(logits)[np.arange(len(labels)), labels]
    losses: FloatArray = -np.log(np.maximum(p, _LEAST))
    return losses
