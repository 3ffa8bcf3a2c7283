"""The convex objective that the weights minimise, of some examples under the circuits grown so far.

    loss(theta) = 1/W sum_i w_i l(y_i, g(x_i)) + l2/2 sum_k |theta_k - a_k|^2,   g_k(x) = bias_k + theta_k . features(x)

with W = sum of the example weights w_i, l the loss of `lcml.model.head`, and the anchor a, 0 unless weights are to stay
near to what they were; the bias is not penalised. Every statistic is a sum over examples: chunks can be added in any
order, on any device, and an example of weight 2 is one that is there twice.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Array, Backend
from lcml.errors import DataError
from lcml.learning.parameters import Parameters, Parametrisation
from lcml.model.head import HEADS, SQUARES, THRESHOLD, Head, Link
from lcml.model.metrics import Quality, quality, right_and_lost
from lcml.model.threshold import ThresholdMetric, best_threshold
from lcml.passes.feature_store import Chunk, Features, Known


@dataclass(frozen=True, eq=False)
class Loss:
    """What the examples of a chunk lose by their logits (n_sets, n_examples), and its derivatives; small enough to be
    sent to where they are. class_codes (n_sets, 1); total: the sum of all example weights; has_roots: whether features
    are square roots, of which halves do not add up to what was split, so that inherited weights are far off."""

    head: Head
    backend: Backend
    class_codes: Array
    total: float
    has_roots: bool

    def value(self, logits: Array, known: Known) -> Array:
        """w_i l_i / W, (n_losses, n_examples)."""
        return self.head.loss(self.backend.xp, logits, self._targets(logits, known)) * self._weights(logits, known)

    def residual(self, logits: Array, known: Known) -> Array:
        """w_i (p_ik - t_ik) / W, the derivative of the loss by the logits."""
        residual = self.head.residual(self.backend.xp, logits, self._targets(logits, known))
        return residual * self._weights(logits, known)

    def curvature(self, logits: Array, known: Known) -> Array:
        """w_i p_ik (1 - p_ik) / W."""
        return self.head.curvature(self.backend.xp, logits) * self._weights(logits, known)

    def step_curvature(self, logits: Array, known: Known) -> Array:
        """w_i h_ik / W with the curvature h that steps reckon with: the cautious one where features are roots."""
        curvature = self.head.cautious_curvature if self.has_roots else self.head.curvature
        return curvature(self.backend.xp, logits) * self._weights(logits, known)

    def _targets(self, logits: Array, known: Known) -> Array:
        """1 where the set's class is the label, else 0."""
        codes = self.backend.asarray(known.labels)[None, :]
        return self.backend.xp.astype(codes == self.class_codes, logits.dtype)

    def _weights(self, logits: Array, known: Known) -> Array:
        return self.backend.asarray(known.counts / self.total, dtype=logits.dtype)[None, :]


class Objective:
    """Examples under circuits: their features, labels and weights, and what parameters lose on them.

    labels (n_examples,) class codes; example_weights (n_examples,) not negative, or None for ones; l2 >= 0 per weight;
    parametrisation: what parameters stand for, by default one weight per feature.
    """

    def __init__(
        self,
        features: Features,
        labels: NDArray[np.int64],
        n_classes: int,
        *,
        link: Link = "sigmoid",
        l2: float = 0.0,
        example_weights: NDArray[np.floating] | None = None,
        parametrisation: Parametrisation | None = None,
    ) -> None:
        self.features, self.labels, self.n_classes, self.link, self.l2 = features, labels, n_classes, link, l2
        self.anchor: FloatArray | float = 0.0
        self.head = HEADS[link]
        self.n_sets = self.head.n_sets(n_classes)
        self.parametrisation = Parametrisation(features.parts) if parametrisation is None else parametrisation
        self._given = None if example_weights is None else np.asarray(example_weights, dtype=np.float64)
        weights = np.ones(len(labels)) if self._given is None else self._given
        if weights.shape != labels.shape or len(labels) != features.n_examples or np.any(weights < 0):
            raise DataError(
                f"expected {features.n_examples} labels and example weights of 0 or more, found {labels.shape} and "
                f"{weights.shape}"
            )
        if not weights.sum() > 0:
            raise DataError("the example weights sum to 0; give at least one example a positive weight")
        self.example_weights = weights / weights.sum()
        codes = features.backend.asarray(self.head.class_codes(self.n_sets)[:, None])
        has_roots = any(part.view.root for part in features.parts)
        self.terms = Loss(self.head, features.backend, codes, float(weights.sum()), has_roots)
        features.label(labels, weights)

    def with_l2(self, l2: float, anchor: FloatArray | float = 0.0) -> "Objective":
        """The same examples with another penalty. anchor (n_sets, n_weights): from where weights are penalised."""
        other = copy.copy(self)
        other.l2, other.anchor = l2, anchor
        return other

    def least_squares(self) -> "Objective":
        """The same examples and penalty, with the squares of `lcml.model.head` for a loss."""
        other = copy.copy(self)
        other.head, other.terms = SQUARES, replace(self.terms, head=SQUARES)
        return other

    def zeros(self) -> Parameters:
        return self.parametrisation.zeros(self.n_sets)

    def logits(self, parameters: Parameters) -> FloatArray:
        """(n_examples, n_sets) logits on the host."""
        weights, bias = self.on_device(parameters)
        to_host = self.features.backend.to_host
        parts = self.features.map(lambda _, chunk: to_host((chunk.weighted_sum(weights) + bias).T))
        return np.concatenate(list(parts), dtype=np.float64)

    def quality(self, parameters: Parameters, threshold: float = THRESHOLD) -> Quality:
        return self.quality_of(self.logits(parameters), threshold)

    def quality_of(self, logits: FloatArray, threshold: float = THRESHOLD) -> Quality:
        """That of logits (n_examples, n_sets)."""
        return quality(logits, self.labels, self.n_classes, self.link, self._given, threshold)

    def threshold(self, parameters: Parameters, metric: ThresholdMetric) -> float:
        """The best one, of two classes."""
        probabilities = self.head.probabilities(self.logits(parameters))
        return best_threshold(probabilities[:, 1], self.labels, metric, self._given)

    def reached(self, parameters: Parameters, threshold: float = THRESHOLD) -> tuple[float, float]:
        """Accuracy and log-loss, of any number of examples."""
        weights, bias = self.on_device(parameters)
        backend, link = self.features.backend, self.link

        def sums(known: Known, chunk: Chunk) -> tuple[Array, ...]:
            logits = np.asarray(backend.to_host((chunk.weighted_sum(weights) + bias).T), np.float64)
            return (backend.asarray(right_and_lost(logits, known.labels, link, known.counts, threshold)),)

        right, lost = self._host(self.features.sum(sums)[0]) / self.terms.total
        return float(right), float(lost)

    def value_and_gradient(
        self, parameters: Parameters, chunks: Sequence[int] | None = None
    ) -> tuple[FloatArray, Parameters]:
        """The loss of every weight set (one number where they share it), and the gradient of their sum.

        Over `chunks`, drawn at random, an unbiased estimate of both: their sums times n_chunks / len(chunks), however
        few examples the last chunk of all holds.
        """
        weights, bias = self.on_device(parameters)
        xp, terms = self.features.backend.xp, self.terms

        def statistics(known: Known, chunk: Chunk) -> tuple[Array, ...]:
            logits = chunk.weighted_sum(weights) + bias
            loss = xp.sum(xp.astype(terms.value(logits, known), xp.float64), axis=1)
            residual = terms.residual(logits, known)
            return loss, chunk.correlation(residual), xp.sum(residual, axis=1)

        share = 1.0 if chunks is None else len(chunks) / self.features.n_chunks
        loss, by_row, by_bias = (self._host(total) / share for total in self.features.sum(statistics, chunks))
        gradient = self._by_weight(by_row, by_bias) + self.l2 * (parameters.weights - self.anchor)
        penalty = 0.5 * self.l2 * np.sum((parameters.weights - self.anchor) ** 2, axis=1)
        return loss + penalty.reshape(len(loss), -1).sum(axis=1), Parameters(gradient, by_bias)

    def curvature_bound(self, parameters: Parameters) -> Parameters:
        """At least the curvature that steps reckon with, weight by weight: 1/W sum_i w_i h_ik x_ij + l2, with h that of
        `Loss.step_curvature`.

        A feature x in [0, 1] is no smaller than its square, which the exact value has; it is exact where x is 0 or 1.
        """
        weights, bias = self.on_device(parameters)
        xp, terms = self.features.backend.xp, self.terms

        def statistics(known: Known, chunk: Chunk) -> tuple[Array, ...]:
            curvature = terms.step_curvature(chunk.weighted_sum(weights) + bias, known)
            return chunk.correlation(curvature), xp.sum(curvature, axis=1)

        by_row, by_bias = (self._host(total) for total in self.features.sum(statistics))
        return Parameters(self._by_weight(by_row, by_bias) + self.l2, by_bias)

    def on_device(self, parameters: Parameters) -> tuple[Array, Array]:
        """Weights (n_sets, n_rows) scattered to the chunk's rows, bias (n_sets, 1), in the features' precision."""
        backend, dtype = self.features.backend, self.features.dtype
        of_features = self.parametrisation.to_features(parameters)
        weights = np.zeros((self.n_sets, self.features.n_rows), dtype=dtype)
        weights[:, self.features.row_of] = of_features.weights
        return backend.asarray(weights), backend.asarray(of_features.bias[:, None], dtype=dtype)

    def _by_weight(self, by_row: FloatArray, total: FloatArray) -> FloatArray:
        """Sums by weight from sums by row of the store."""
        return self.parametrisation.adjoint(by_row[:, self.features.row_of], total)

    def _host(self, values: Array) -> FloatArray:
        return np.asarray(self.features.backend.to_host(values), dtype=np.float64)
