"""A change of variables that makes the objective rounder: as many steps of L-BFGS get several times as far.

For every weight set k, with the curvatures h_ik at the start, those of `lcml.learning.objective.Loss.step_curvature`, a
step from there is, in new variables u, v,

    theta_k = D_k (I + V_k C_k V_k^T) u_k,     bias_k = v_k / sqrt(sum_i h_ik) - m_k . theta_k

Features are not negative, so they are correlated through their means: m_k, the mean feature under h_k, is left to the
bias, which is not penalised. D_k scales every feature by a bound of its curvature about that mean. V_k are the
directions in which the Hessian of a sample of examples is largest, C_k in (-1, 0] evens them out, down to the largest
curvature left (as Frangella, Tropp & Udell, Randomized Nystrom Preconditioning, 2023, do for a sketch). The change is
linear and invertible: the optimum is the same, whatever the sample.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Array
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parameters
from lcml.passes.feature_store import Chunk, Known

_SAMPLE, _SAMPLE_ROOT, _SAMPLE_VALUES = 512, 3.0, 1 << 26
"""Examples sampled: at most so many, so many times the root of all (the work grows with the square of a sample, that of
a pass with all), and no more than so many values."""

_SAMPLE_CHUNKS = 16  # chunks of the store that the sample is taken from

_RANK_SHARE, _EFFECTIVE_SHARE = 5, 2
"""Examples sampled for each direction evened out, more directions would follow the sample rather than the data; and so
many of those that count: where their curvatures differ, (sum h)^2 / sum h^2 of them."""

_BY_WEIGHT = 0.1
"""Share of the sample that is drawn by the examples' weights, evenly where they have none; the rest by curvature, which
few examples have once most are fitted."""

_CURVATURE_FLOOR = 1e-3
"""Diagonal entries below this share of the mean are raised to it: a flat direction must not get an endless step."""

_ROUNDING = 1e-6  # curvatures below this share of the largest are rounding

_NOTHING = _ROUNDING**2
"""What stands for sums of curvature that are 0 (all examples are fitted), where that would be divided by."""


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """mean, scale (n_sets, n_weights); bias_scale (n_sets,); directions (n_sets, rank, n_weights) on the device;
    stretch (n_sets, rank)."""

    objective: Objective
    mean: FloatArray
    scale: FloatArray
    bias_scale: FloatArray
    directions: Array
    stretch: FloatArray

    @classmethod
    def at(cls, objective: Objective, start: Parameters) -> "Preconditioner":
        """For steps from `start`: one pass over the data, and about as much work on a sample."""
        bound = objective.curvature_bound(start)
        total = np.maximum(bound.bias, _NOTHING)[:, None]
        second = bound.weights - objective.l2
        mean = second / total
        diagonal = np.maximum(second - second * mean, 0) + objective.l2
        floor = _CURVATURE_FLOOR * diagonal.mean(axis=1, keepdims=True) + _NOTHING * total
        scale, bias_scale = 1 / np.sqrt(np.maximum(diagonal, floor)), 1 / np.sqrt(np.maximum(total, floor)[:, 0])
        directions, stretch = _directions(objective, start, mean, scale, total[:, 0])
        return cls(objective, mean, scale, bias_scale, directions, stretch)

    def step(self, variables: Parameters) -> Parameters:
        """The change of the parameters that a change of the variables makes."""
        weights = self.scale * self._even_out(variables.weights)
        return Parameters(weights, self.bias_scale * variables.bias - np.sum(self.mean * weights, axis=1))

    def slope(self, gradient: Parameters) -> Parameters:
        """The gradient by the variables from that by the parameters: the adjoint of `step`."""
        weights = self._even_out(self.scale * (gradient.weights - self.mean * gradient.bias[:, None]))
        return Parameters(weights, self.bias_scale * gradient.bias)

    def _even_out(self, weights: FloatArray) -> FloatArray:
        """(I + V C V^T) weights, set by set."""
        backend, dtype = self.objective.features.backend, self.objective.features.dtype
        along = self.directions @ backend.asarray(weights[..., None], dtype=dtype)
        along = along * backend.asarray(self.stretch[..., None], dtype=dtype)
        change = backend.xp.permute_dims(self.directions, (0, 2, 1)) @ along
        return weights + np.asarray(backend.to_host(change), dtype=np.float64)[..., 0]


def _directions(
    objective: Objective, start: Parameters, mean: FloatArray, scale: FloatArray, total: FloatArray
) -> tuple[Array, FloatArray]:
    """V and C: of the eigenvectors of the sampled, centred and scaled Hessian those with the largest eigenvalues, and
    what shrinks these to the next smaller one."""
    backend, dtype = objective.features.backend, objective.features.dtype
    xp = backend.xp
    rows, curvature = _sample(objective, start, total)
    n_sets, (n_sampled, n_weights) = objective.n_sets, rows.shape
    most = n_sampled // _RANK_SHARE
    found, stretch = backend.empty((n_sets, most, n_weights), dtype), np.zeros((n_sets, most))
    found[...] = 0
    sums, squares = curvature.sum(axis=1), np.square(curvature).sum(axis=1)
    effective = sums**2 / np.maximum(squares, np.finfo(np.float64).tiny)
    ranks = np.minimum(most, (effective / _EFFECTIVE_SHARE).astype(int))
    curvature *= (total / np.maximum(sums, _NOTHING))[:, None]
    ridge = objective.l2 * np.mean(scale**2, axis=1)

    def fill(k: int) -> None:
        rank = int(ranks[k])
        if not rank:
            return
        root, centre, width = (backend.asarray(a, dtype=dtype) for a in (np.sqrt(curvature[k]), mean[k], scale[k]))
        scaled = (rows - centre[None, :]) * width[None, :] * root[:, None]
        eigenvalues, vectors = xp.linalg.eigh(xp.astype(scaled @ scaled.T, xp.float64))
        of_sample = np.asarray(backend.to_host(eigenvalues))
        least = max(float(of_sample[-rank - 1]), _ROUNDING * float(of_sample[-1]), _NOTHING)
        large = np.maximum(of_sample[n_sampled - rank :], least)
        stretch[k, :rank] = np.sqrt((least + ridge[k]) / (large + ridge[k])) - 1
        lengths = backend.asarray(np.sqrt(large)[:, None], dtype=dtype)
        found[k, :rank, :] = xp.astype(vectors[:, n_sampled - rank :].T, scaled.dtype) @ scaled / lengths

    for _ in backend.map(fill, range(n_sets)):
        pass
    return found, stretch


def _sample(objective: Objective, start: Parameters, total: FloatArray) -> tuple[Array, FloatArray]:
    """Features (n_sampled, n_weights) on the device, and h (n_sets, n_sampled) over the chance to be drawn.

    From chunks spread evenly over the data examples are drawn in steps of equal curvature, relative to that of all
    examples and summed over the weight sets.
    """
    features, backend, dtype = objective.features, objective.features.backend, objective.features.dtype
    weights, bias = objective.on_device(start)
    room = max(1, _SAMPLE_VALUES // max(1, start.weights.shape[1]))
    n_wanted = min(_SAMPLE, math.ceil(_SAMPLE_ROOT * math.sqrt(features.n_examples)), features.n_examples, room)
    n_chunks = min(features.n_chunks, _SAMPLE_CHUNKS, n_wanted)
    which = np.linspace(0, features.n_chunks - 1, n_chunks).astype(int).tolist()

    n_of_chunk, terms = math.ceil(n_wanted / n_chunks), objective.terms

    def of_chunk(known: Known, chunk: Chunk) -> tuple[NDArray[Any], FloatArray]:
        curvature = terms.step_curvature(chunk.weighted_sum(weights) + bias, known)
        h = np.asarray(backend.to_host(curvature), dtype=np.float64)
        chosen, weight = _draw(np.sum(h / total[:, None], axis=0), known.counts, n_of_chunk)
        return np.asarray(backend.to_host(chunk.of(chosen).values())), h[:, chosen] * weight

    rows, curvatures = [], []
    for by_row, h in features.map(of_chunk, which):
        of_features = by_row[features.row_of].T.astype(np.float64)
        rows.append(objective.parametrisation.adjoint(of_features, np.ones(len(of_features))).astype(dtype))
        curvatures.append(h)
    return backend.asarray(np.concatenate(rows)), np.concatenate(curvatures, axis=1)


def _draw(size: FloatArray, counts: FloatArray, n: int) -> tuple[NDArray[np.intp], FloatArray]:
    """Numbers of examples in n systematic draws by these sizes, and how often each came relative to what was to be
    expected; all examples where there are no more than n."""
    if len(size) <= n:
        return np.arange(len(size)), np.ones(len(size))
    tiny = np.finfo(np.float64).tiny
    counts = np.maximum(counts, tiny)
    share = _BY_WEIGHT * counts / counts.sum() + (1 - _BY_WEIGHT) * size / max(size.sum(), tiny)
    upto = np.cumsum(share)
    chosen, count = np.unique(np.searchsorted(upto, (np.arange(n) + 0.5) / n * upto[-1]), return_counts=True)
    return chosen, count / (n * share[chosen] / upto[-1])
