"""The convex objective that the weights minimise.

    loss(theta) = 1/W sum_i w_i l(y_i, g(x_i)) + l2/2 sum_k |theta_k|^2,   g_k(x) = bias_k + theta_k . features(x)

with W = sum of the example weights w_i; the bias is not penalised. l is, with targets t_ik in {0, 1},

    sigmoid   sum_k softplus(g_k) - t_k g_k          (one set for two classes, else one-vs-rest)
    softmax   log sum_k exp(g_k) - sum_k t_k g_k

Every statistic is a sum over examples: chunks can be added in any order, on any device.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Array, Backend
from lcml.errors import DataError
from lcml.learning.parameters import Layout, Parameters
from lcml.model.head import Link, n_weight_sets
from lcml.passes.feature_store import Chunk, FeatureStore


class Objective:
    """Loss, gradient and curvature for the examples of a feature store.

    labels (n_examples,) class codes; example_weights (n_examples,) not negative, or None for ones; l2 >= 0 per weight;
    layout: of the parameters, by default one weight per feature.
    """

    def __init__(
        self,
        features: FeatureStore,
        labels: NDArray[np.int64],
        n_classes: int,
        *,
        link: Link = "sigmoid",
        l2: float = 0.0,
        example_weights: NDArray[np.floating] | None = None,
        layout: Layout | None = None,
    ) -> None:
        self.features, self.labels, self.link, self.l2 = features, labels, link, l2
        self.n_sets = n_weight_sets(n_classes, link)
        self.layout = Layout(features.parts) if layout is None else layout
        weights = np.ones(len(labels)) if example_weights is None else np.asarray(example_weights, dtype=np.float64)
        if weights.shape != labels.shape or len(labels) != features.n_examples or np.any(weights < 0):
            raise DataError(
                f"expected {features.n_examples} labels and example weights of 0 or more, found {labels.shape} and "
                f"{weights.shape}"
            )
        if not weights.sum() > 0:
            raise DataError("the example weights sum to 0; give at least one example a positive weight")
        self.example_weights = weights / weights.sum()

    def zeros(self) -> Parameters:
        """All weights and biases 0."""
        return self.layout.zeros(self.n_sets)

    def logits(self, parameters: Parameters) -> FloatArray:
        """(n_examples, n_sets) logits on the host."""
        weights, bias = self.on_device(parameters)
        parts = self.features.map(lambda _, chunk: self._host((chunk.weighted_sum(weights) + bias).T))
        return np.concatenate(list(parts))

    def value_and_gradient(
        self, parameters: Parameters, chunks: Sequence[int] | None = None
    ) -> tuple[FloatArray, Parameters]:
        """The loss of every weight set (one number under the softmax, which they share), and the gradient of their sum.

        Over `chunks` alone an unbiased estimate of both.
        """
        weights, bias = self.on_device(parameters)
        xp = self.features.backend.xp

        def statistics(examples: slice, chunk: Chunk) -> tuple[Array, ...]:
            loss, residual = self._loss_and_residual(chunk.weighted_sum(weights) + bias, examples)
            return loss, chunk.correlation(residual), xp.sum(residual, axis=1)

        share = 1.0 if chunks is None else self.features.share(chunks)
        loss, by_row, by_bias = (self._host(total) / share for total in self.features.sum(statistics, chunks))
        gradient = self.layout.raise_(by_row[:, self.features.row_of], by_bias) + self.l2 * parameters.weights
        penalty = 0.5 * self.l2 * np.sum(parameters.weights**2, axis=1)
        return loss + (penalty.sum() if self.link == "softmax" else penalty), Parameters(gradient, by_bias)

    def curvature_bound(self, parameters: Parameters) -> Parameters:
        """At least d2 loss / d theta^2, weight by weight: 1/W sum_i w_i h_ik x_ij + l2 with h = p (1 - p).

        A feature x in [0, 1] is no smaller than its square, which the exact value has; it is exact where x is 0 or 1.
        """
        weights, bias = self.on_device(parameters)
        xp = self.features.backend.xp

        def statistics(examples: slice, chunk: Chunk) -> tuple[Array, ...]:
            curvature = self.curvature(chunk.weighted_sum(weights) + bias, examples)
            return chunk.correlation(curvature), xp.sum(curvature, axis=1)

        by_row, by_bias = (self._host(total) for total in self.features.sum(statistics))
        return Parameters(self.layout.raise_(by_row[:, self.features.row_of], by_bias) + self.l2, by_bias)

    def residual(self, logits: Array, examples: slice) -> Array:
        """w_i (p_ik - t_ik) / W, the derivative of the loss by the logits, (n_sets, n_examples of the chunk)."""
        return self._loss_and_residual(logits, examples)[1]

    def curvature(self, logits: Array, examples: slice) -> Array:
        """w_i p_ik (1 - p_ik) / W, (n_sets, n_examples of the chunk)."""
        p = _probability(self.features.backend, logits, self.link)
        return p * (1 - p) * self._weight_row(logits, examples)

    def _loss_and_residual(self, logits: Array, examples: slice) -> tuple[Array, Array]:
        backend = self.features.backend
        xp = backend.xp
        codes = backend.asarray(self.labels[examples])
        if self.n_sets == 1:
            target = xp.astype(codes[None, :] == 1, logits.dtype)
        else:
            target = xp.astype(codes[None, :] == backend.asarray(np.arange(self.n_sets))[:, None], logits.dtype)
        if self.link == "softmax":
            top = xp.max(logits, axis=0, keepdims=True)
            loss = top + xp.log(xp.sum(xp.exp(logits - top), axis=0, keepdims=True))
            loss = loss - xp.sum(target * logits, axis=0, keepdims=True)
        else:
            loss = xp.maximum(logits, xp.zeros_like(logits)) + xp.log1p(xp.exp(-xp.abs(logits))) - target * logits
        weight = self._weight_row(logits, examples)
        residual = (_probability(backend, logits, self.link) - target) * weight
        return xp.sum(xp.astype(loss * weight, xp.float64), axis=1), residual

    def _weight_row(self, logits: Array, examples: slice) -> Array:
        return self.features.backend.asarray(self.example_weights[examples], dtype=logits.dtype)[None, :]

    def on_device(self, parameters: Parameters) -> tuple[Array, Array]:
        """Weights (n_sets, n_rows) scattered to the chunk's rows, bias (n_sets, 1), in the features' precision."""
        backend, dtype = self.features.backend, self.features.dtype
        lowered = self.layout.lower(parameters)
        weights = np.zeros((self.n_sets, self.features.n_rows), dtype=dtype)
        weights[:, self.features.row_of] = lowered.weights
        return backend.asarray(weights), backend.asarray(lowered.bias[:, None], dtype=dtype)

    def _host(self, values: Array) -> FloatArray:
        return np.asarray(self.features.backend.to_host(values), dtype=np.float64)


def _probability(backend: Backend, logits: Array, link: Link) -> Array:
    xp = backend.xp
    if link == "softmax":
        exponentials = xp.exp(logits - xp.max(logits, axis=0, keepdims=True))
        return exponentials / xp.sum(exponentials, axis=0, keepdims=True)
    small = xp.exp(-xp.abs(logits))
    return xp.where(logits >= 0, 1 / (1 + small), small / (1 + small))
