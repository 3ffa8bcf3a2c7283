"""Heads: what a link makes of logits, for learning and for prediction; one record for each, in `HEADS`.

With targets t_ik in {0, 1}, 1 where weight set k stands for the label of example i, an example of logits g loses

    sigmoid   sum_k softplus(g_k) - t_k g_k          (one set for two classes, else one-vs-rest)
    softmax   log sum_k exp(g_k) - sum_k t_k g_k

Of both, the derivative by g_k is p_k - t_k and the curvature p_k (1 - p_k), with p the inverse link of g. Arrays of
learning are (n_sets, n_examples), of any array namespace; those of prediction (n_examples, n_sets), on the host.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Array

Link = Literal["sigmoid", "softmax"]

_LEAST_LOG_ODDS = 1e-3  # of smaller ones tanh(|a| / 2) / (2 |a|) is its limit, 1/4, to six digits

_LEAST_SUM = 1e-30  # of the exponentials of other classes, whose logarithm is taken

THRESHOLD = 0.5
"""The probability of the second of two classes above which it is predicted, unless a model says another."""


class Head(ABC):
    """A link with its loss. is_joint: whether all weight sets share one loss, a distribution over the classes; else
    every set has a loss of its own, which no other set changes."""

    is_joint: bool

    @abstractmethod
    def n_sets(self, n_classes: int) -> int:
        """How many weight sets a model of `n_classes` has."""

    def n_losses(self, n_sets: int) -> int:
        """How many losses share nothing but the passes over the data."""
        return 1 if self.is_joint else n_sets

    def class_codes(self, n_sets: int) -> NDArray[np.int64]:
        """(n_sets,) the class whose examples are the positive ones of every set: of a single set the second one."""
        return np.arange(n_sets) if n_sets > 1 else np.ones(1, dtype=np.int64)

    @abstractmethod
    def loss(self, xp: Any, logits: Array, targets: Array) -> Array:
        """(n_losses, n_examples) from logits and targets (n_sets, n_examples)."""

    @abstractmethod
    def inverse_link(self, xp: Any, logits: Array) -> Array:
        """(n_sets, n_examples) p, the probability of every set's class."""

    def residual(self, xp: Any, logits: Array, targets: Array) -> Array:
        """(n_sets, n_examples) p - t, the derivative of the loss by the logits."""
        return self.inverse_link(xp, logits) - targets

    def curvature(self, xp: Any, logits: Array) -> Array:
        """(n_sets, n_examples) p (1 - p), the second derivative of the loss by each logit."""
        p = self.inverse_link(xp, logits)
        return p * (1 - p)

    @abstractmethod
    def log_odds(self, xp: Any, logits: Array) -> Array:
        """(n_sets, n_examples) log p / (1 - p), or nearly that where it is large."""

    def cautious_curvature(self, xp: Any, logits: Array) -> Array:
        """(n_sets, n_examples) the mean of p (1 - p) and of tanh(|a| / 2) / (2 |a|), with a the log-odds of p: that of
        the parabola which touches the loss, as a function of one logit, and is nowhere below it.

        Far on the wrong side p (1 - p) is near 0, and a step that trusts it goes much too far; where p is 1/2 both are
        1/4. Source: Jaakkola & Jordan, Bayesian parameter estimation via variational methods, 2000.
        """
        p, odds = self.inverse_link(xp, logits), xp.abs(self.log_odds(xp, logits))
        size = xp.maximum(odds, xp.full_like(odds, _LEAST_LOG_ODDS))
        return (p * (1 - p) + xp.tanh(size / 2) / (2 * size)) / 2

    @abstractmethod
    def probabilities(self, logits: FloatArray) -> FloatArray:
        """(n_examples, n_classes) probabilities of logits (n_examples, n_sets); rows sum to 1."""


class _Sigmoid(Head):
    """Probabilities of one set: the sigmoid s of its logit as (1 - s, s); of more, every sigmoid over their sum."""

    is_joint = False

    def n_sets(self, n_classes: int) -> int:
        return 1 if n_classes == 2 else n_classes

    def loss(self, xp: Any, logits: Array, targets: Array) -> Array:
        return _softplus(xp, logits) - targets * logits

    def inverse_link(self, xp: Any, logits: Array) -> Array:
        small = xp.exp(-xp.abs(logits))
        return xp.where(logits >= 0, 1 / (1 + small), small / (1 + small))

    def log_odds(self, xp: Any, logits: Array) -> Array:
        return logits

    def probabilities(self, logits: FloatArray) -> FloatArray:
        if logits.shape[1] == 1:
            return np.asarray(self.inverse_link(np, np.concatenate([-logits, logits], axis=1)))
        return HEADS["softmax"].probabilities(-_softplus(np, -logits))  # of log sigmoids: no 0 by 0


class _Softmax(Head):
    """Probabilities: exp(g_k) / sum_k exp(g_k)."""

    is_joint = True

    def n_sets(self, n_classes: int) -> int:
        return n_classes

    def loss(self, xp: Any, logits: Array, targets: Array) -> Array:
        top = xp.max(logits, axis=0, keepdims=True)
        log_sum = top + xp.log(xp.sum(xp.exp(logits - top), axis=0, keepdims=True))
        return log_sum - xp.sum(targets * logits, axis=0, keepdims=True)

    def inverse_link(self, xp: Any, logits: Array) -> Array:
        exponentials = xp.exp(logits - xp.max(logits, axis=0, keepdims=True))
        return exponentials / xp.sum(exponentials, axis=0, keepdims=True)

    def log_odds(self, xp: Any, logits: Array) -> Array:
        shifted = logits - xp.max(logits, axis=0, keepdims=True)
        exponentials = xp.exp(shifted)
        others = xp.sum(exponentials, axis=0, keepdims=True) - exponentials
        return shifted - xp.log(xp.maximum(others, xp.full_like(others, _LEAST_SUM)))

    def probabilities(self, logits: FloatArray) -> FloatArray:
        return np.asarray(self.inverse_link(np, logits.T).T)


class _Squares(_Sigmoid):
    """Least squares: a set loses (g - (2 t - 1))^2 / 8, whose curvature is the most that the sigmoid's loss has."""

    def loss(self, xp: Any, logits: Array, targets: Array) -> Array:
        return (logits + 1 - 2 * targets) ** 2 / 8

    def residual(self, xp: Any, logits: Array, targets: Array) -> Array:
        return (logits + 1 - 2 * targets) / 4

    def curvature(self, xp: Any, logits: Array) -> Array:
        return xp.full_like(logits, 0.25)

    cautious_curvature = curvature


def _softplus(xp: Any, values: Array) -> Array:
    return xp.maximum(values, xp.zeros_like(values)) + xp.log1p(xp.exp(-xp.abs(values)))


HEADS: Mapping[Link, Head] = {"sigmoid": _Sigmoid(), "softmax": _Softmax()}
"""The head of every link."""

SQUARES: Head = _Squares()
"""Fits one logit by squares instead, for a mean with a fit of a link; it has no probabilities of its own."""


def predicted_codes(logits: FloatArray, threshold: float = THRESHOLD) -> NDArray[np.int64]:
    """(n_examples,) index of the most probable class for logits (n_examples, n_sets); of two classes the second where
    its probability is above the threshold. A tie goes to the first class."""
    if logits.shape[1] == 1 or threshold != THRESHOLD:
        return (margins(logits, threshold) > 0).astype(np.int64)
    return np.asarray(np.argmax(logits, axis=1))


def margins(logits: FloatArray, threshold: float = THRESHOLD) -> FloatArray:
    """(n_examples,) how far the log-odds of the second of two classes are above those of the threshold."""
    log_odds: FloatArray = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    return log_odds - log_odds_of(threshold)


def log_odds_of(probability: float) -> float:
    return math.log(probability / (1 - probability))
