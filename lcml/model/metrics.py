"""How good predictions are: accuracy, macro F1, log-loss, and the confusion matrix."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.model.head import Link, predicted_codes, probabilities


@dataclass(frozen=True)
class Quality:
    """accuracy: share of right labels; f1_macro: mean over classes of 2 TP / (2 TP + FP + FN), 0 for a class that
    neither occurs nor is predicted; log_loss: mean of -log p(true class), natural logarithm."""

    accuracy: float
    f1_macro: float
    log_loss: float

    def rank(self, metric: Literal["accuracy", "f1-macro", "log-loss"]) -> tuple[float, float]:
        """Larger is better; equal accuracies or F1 are told apart by the log-loss."""
        first = {"accuracy": self.accuracy, "f1-macro": self.f1_macro, "log-loss": -self.log_loss}[metric]
        return first, -self.log_loss


def confusion_matrix(predicted: NDArray[np.int64], labels: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """(n_classes, n_classes) counts: row the true class, column the predicted one."""
    return np.bincount(labels * n_classes + predicted, minlength=n_classes**2).reshape(n_classes, n_classes)


def quality(logits: FloatArray, labels: NDArray[np.int64], n_classes: int, link: Link) -> Quality:
    """The quality of logits (n_examples, n_sets) for labels (n_examples,)."""
    matrix = confusion_matrix(predicted_codes(logits), labels, n_classes)
    true_positive = np.diag(matrix).astype(np.float64)
    denominator = matrix.sum(axis=0) + matrix.sum(axis=1)
    f1 = 2 * true_positive / np.maximum(denominator, 1)
    p = probabilities(logits, link)[np.arange(len(labels)), labels]
    log_loss = float(-np.log(np.maximum(p, np.finfo(np.float64).tiny)).mean())
    return Quality(float(true_positive.sum() / len(labels)), float(f1.mean()), log_loss)
