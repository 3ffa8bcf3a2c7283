"""The paper's convolutional network, computed by jax: three layers of 3x3 filters, padded.

The paper says no more of it than that and its 2,196K parameters. With 32, 64 and 128 filters, each layer rectified and
pooled by the maximum of 2x2, odd sides padded, then 1,024 rectified units, there are 2,201,098 on images of 28x28. Half
of the units are dropped at random in training; Adam (step 0.001) has the mean cross entropy of each batch.

Import this in a process of its own: jax starts threads, beside which no process should fork.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import isqrt, prod
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

jax.config.update("jax_platforms", "cpu")  # as all that a row is compared with

_FILTER = 3
_DROPPED = 0.5
_STEP, _DECAY, _SQUARE_DECAY, _EPSILON = 1e-3, 0.9, 0.999, 1e-8  # Adam's, as Kingma & Ba have them
_PREDICTED_AT_ONCE = 1000


class ConvolutionalNetwork:
    """A classifier of square grey images, with the names of scikit-learn's: fit, predict, coefs_, intercepts_, n_iter_.

    filters: of every layer; units: between them and the classes; max_iter: epochs, all of which are run; batch_size:
    examples of a step, of which an epoch leaves out the last few where they do not fill one.
    """

    def __init__(
        self, *, filters: Sequence[int], units: int, max_iter: int, batch_size: int, random_state: int
    ) -> None:
        self.filters, self.units = tuple(filters), units
        self.max_iter, self.batch_size, self.random_state = max_iter, batch_size, random_state

    def fit(self, x: NDArray[np.float32], y: NDArray[np.int64]) -> "ConvolutionalNetwork":
        """Fit to x (n, side * side), in [0, 1], and classes y (n,)."""
        rng, images, size = np.random.default_rng(self.random_state), _images(x), min(self.batch_size, len(x))
        self.classes_, codes = np.unique(y, return_inverse=True)
        parameters = self._start(rng, images.shape[1], len(self.classes_))
        zeros = jax.tree.map(np.zeros_like, parameters)
        state, key, step = (parameters, zeros, zeros), jax.random.key(self.random_state), jax.jit(_adam)
        n_steps = 0
        for _ in range(self.max_iter):
            order = rng.permutation(len(x))
            for first in range(0, len(x) - size + 1, size):
                batch = order[first : first + size]
                n_steps += 1
                state = step(state, n_steps, images[batch], codes[batch], jax.random.fold_in(key, n_steps))
        self.n_iter_ = self.max_iter
        self.coefs_, self.intercepts_ = ([np.asarray(a) for a in arrays] for arrays in zip(*state[0], strict=True))
        return self

    def predict(self, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """(n,) the most probable classes of x (n, side * side)."""
        logits, parameters = jax.jit(_logits), list(zip(self.coefs_, self.intercepts_, strict=True))
        images, firsts = _images(x), range(0, len(x), _PREDICTED_AT_ONCE)
        parts = (logits(parameters, images[first : first + _PREDICTED_AT_ONCE]) for first in firsts)
        codes = np.concatenate([np.argmax(part, axis=1) for part in parts])
        return np.asarray(self.classes_[codes])

    def _start(self, rng: np.random.Generator, side: int, n_classes: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Weights and biases per layer: He's normal weights, of variance 2 / (inputs of a unit), and 0."""
        shapes: list[tuple[int, ...]] = [(_FILTER, _FILTER, *of) for of in pairwise((1, *self.filters))]
        for _ in self.filters:
            side = -(-side // 2)
        shapes += pairwise((side * side * self.filters[-1], self.units, n_classes))
        return [
            (rng.normal(0, np.sqrt(2 / prod(shape[:-1])), shape).astype(np.float32), np.zeros(shape[-1], np.float32))
            for shape in shapes
        ]


def _images(x: NDArray[np.float32]) -> NDArray[np.float32]:
    side = isqrt(x.shape[1])
    return x.reshape(len(x), side, side, 1)


def _logits(parameters: Any, images: Any, key: Any = None) -> Any:
    """(n, n_classes) of images (n, side, side, 1); with a key, units are dropped and the others doubled."""
    *convolutions, (hidden, hidden_bias), (last, last_bias) = parameters
    layout, x = ("NHWC", "HWIO", "NHWC"), images
    for filters, bias in convolutions:
        x = jax.lax.conv_general_dilated(x, filters, (1, 1), "SAME", dimension_numbers=layout)
        x = jax.nn.relu(x + bias)
        x = jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    x = jax.nn.relu(x.reshape(len(x), -1) @ hidden + hidden_bias)
    if key is not None:
        x = x * jax.random.bernoulli(key, 1 - _DROPPED, x.shape) / (1 - _DROPPED)
    return x @ last + last_bias


def _adam(state: Any, n_steps: Any, images: Any, codes: Any, key: Any) -> Any:
    """The state after a step: parameters, and the decaying means of gradients and of their squares."""

    def loss(parameters: Any) -> Any:
        logs = jax.nn.log_softmax(_logits(parameters, images, key))
        return -jax.numpy.take_along_axis(logs, codes[:, None], axis=1).mean()

    parameters, means, squares = state
    gradients = jax.grad(loss)(parameters)
    means = jax.tree.map(lambda m, g: _DECAY * m + (1 - _DECAY) * g, means, gradients)
    squares = jax.tree.map(lambda s, g: _SQUARE_DECAY * s + (1 - _SQUARE_DECAY) * g * g, squares, gradients)
    step = _STEP * (1 - _SQUARE_DECAY**n_steps) ** 0.5 / (1 - _DECAY**n_steps)
    moved = jax.tree.map(lambda p, m, s: p - step * m / (s**0.5 + _EPSILON), parameters, means, squares)
    return moved, means, squares
