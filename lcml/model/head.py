"""From logits to classes and probabilities."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray

Link = Literal["sigmoid", "softmax"]


def n_weight_sets(n_classes: int, link: Link) -> int:
    """How many weight vectors a model of `n_classes` has."""
    return 1 if n_classes == 2 and link == "sigmoid" else n_classes


def predicted_codes(logits: FloatArray) -> NDArray[np.int64]:
    """(n_examples,) index of the most probable class for logits (n_examples, n_sets); a tie goes to the first class."""
    if logits.shape[1] == 1:
        return (logits[:, 0] > 0).astype(np.int64)
    return np.asarray(np.argmax(logits, axis=1))


def probabilities(logits: FloatArray, link: Link) -> FloatArray:
    """(n_examples, n_classes) probabilities of logits (n_examples, n_sets); rows sum to 1.

    One set: the sigmoid s of the logit as (1 - s, s). More sets, sigmoid: each class's sigmoid divided by their sum.
    Softmax: exp(g_k) / sum exp(g).
    """
    if link == "softmax":
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))
    log_sigmoid = -np.logaddexp(0, -logits)
    if logits.shape[1] == 1:
        positive = np.exp(log_sigmoid[:, 0])
        return np.stack([np.exp(-np.logaddexp(0, logits[:, 0])), positive], axis=1)
    return probabilities(log_sigmoid, "softmax")
