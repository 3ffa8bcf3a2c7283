"""Score every possible split of a circuit: which element to split on which variable.

After splitting element e (flow f_i of example i) on a free variable v (value x_iv) the new feature is exactly
phi_i = f_i x_iv. With residuals r_ik = t_ik - p_ik and curvatures h_ik = p_ik (1 - p_ik), weighted by example:

    gain      (second order)  sum_k (G - G0 C / D)^2 / (H - C^2 / D + l2)
              G0 = sum r f, G = sum r phi, H = sum h phi^2, C = sum h f phi, D = sum h f^2 + l2
              the decrease of the loss, times two, when phi's weight is fitted beside that of f
    variance  (Liang & Van den Broeck, AAAI 2019, section 4.2) the weighted variance of the partial derivatives r_ik f_i
              before the split less that within the groups weighted by x_iv and 1 - x_iv, each group by its share of e's
              flow; the split whose groups vary least, summed over classes, is the best of its element

Elements of one vtree node and variables of its scope meet in matrix products over examples; nothing loops over
examples, elements or variables. Where a view has windows, f_i and phi_i are the pooled features of a cell: flows and
literals meet window by window, are pooled, square-rooted where the view says so, and only then squared; the scores of
all cells add up.

Sums may be estimated from a sample of the examples. Every term r f, r phi, h phi^2, ... of an example lies in [-1, 1],
so that of n examples drawn at random the mean of each of m such terms is within sqrt(2 log(2 m / delta) / n) of that of
all examples, for all m at once, with probability 1 - delta (Hoeffding's inequality and a union bound; drawing without
replacement is no worse). What that costs in gain is measured in docs/benchmarks.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Array, Backend
from lcml.circuit import Circuit
from lcml.features import Chunk, FeatureMap
from lcml.objective import Objective
from lcml.parameters import Parameters
from lcml.parts import Part
from lcml.views import EveryPosition

Criterion = Literal["gain", "variance"]

_FLOW_BYTES = 1 << 27
"""Flows of so many bytes are computed at a time where nothing is pooled: every weight set then makes more of that size.
"""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Splits with their scores, in no order: part, element, variable (n_candidates,), score (larger is better)."""

    part: NDArray[np.int64]
    element: NDArray[np.int64]
    variable: NDArray[np.int64]
    score: NDArray[np.float64]


def score_splits(
    objective: Objective,
    parameters: Parameters,
    criterion: Criterion = "gain",
    *,
    minimum_support: float = 1.0,
    per_element: int = 1,
    chunks: Sequence[int] | None = None,
) -> Candidates:
    """The best `per_element` splits of every element whose two halves both keep enough flow.

    minimum_support: the least flow, in examples, of either half (over the chunks read, scaled to all examples; averaged
    over the cells of the view); chunks: the chunks of the feature store to read, all by default.
    """
    features = objective.features
    scorers = [_PartScorer(part, features.backend, criterion) for part in features.parts]
    weights, bias = objective.on_device(parameters)

    def sums(examples: slice, chunk: Chunk) -> tuple[Array, ...]:
        logits = chunk.weighted_sum(weights) + bias
        signals = objective.residual(logits, examples), objective.curvature(logits, examples)
        values = chunk.examples()
        return tuple(array for scorer in scorers for array in scorer.sums(values, *signals))

    share = 1.0 if chunks is None else features.share(chunks)
    found = []
    if any(scorer.groups for scorer in scorers):
        totals = iter([features.backend.to_host(total) for total in features.sum(sums, chunks)])
        for number, scorer in enumerate(scorers):
            best = scorer.best(totals, minimum_support * share, objective.l2 * share, per_element)
            found += [(np.full(len(element), number), element, variable, score) for element, variable, score in best]
    if not found:
        nothing = np.array([], dtype=np.int64)
        return Candidates(nothing, nothing, nothing, np.array([]))
    return Candidates(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


_PER_GROUP = {"gain": 7, "variance": 6}
"""Arrays that the sums of a group are."""

_BY_PAIR = {"gain": (0, 2, 3), "variance": (0, 2)}
"""Which of those behind the first two have an entry per pair of element and variable."""


class _PartScorer:
    """The sums of one part that its scores are made of. groups: (elements, variables) of every vtree node that has
    something to split."""

    def __init__(self, part: Part, backend: Backend, criterion: Criterion) -> None:
        circuit = part.circuit
        self.groups = _groups(circuit)
        self._part, self._backend, self._criterion = part, backend, criterion
        self._is_pooled = part.view.n_positions > 1 or part.view.root
        self._on_device = [  # per group: elements, and the inputs that the variables read, position by position
            (backend.asarray(elements), backend.asarray(part.view.index[:, variables].ravel()))
            for elements, variables in self.groups
        ]
        elements = circuit.n_literals + np.arange(circuit.n_elements)
        self._flows = FeatureMap(EveryPosition(part.view), circuit, elements, backend) if self.groups else None

    def sums(self, examples: Array, residual: Array, curvature: Array) -> list[Array]:
        """Of every group, seven (gain) or six (variance) sums over `examples`: support (n_cells, m, v), flow
        (n_cells, m), and others with the sets of every cell in front."""
        if self._flows is None:
            return []
        n_bytes = self._backend.working_bytes if self._is_pooled else _FLOW_BYTES
        step = max(1, n_bytes // (4 * self._flows.n_rows))
        total: list[Array] = []
        for first in range(0, examples.shape[0], step):
            block = slice(first, min(first + step, examples.shape[0]))
            arrays = self._block(examples[block, :], residual[:, block], curvature[:, block])
            total = [a + b for a, b in zip(total, arrays, strict=True)] if total else arrays
        return total

    def _block(self, examples: Array, residual: Array, curvature: Array) -> list[Array]:
        xp, view = self._backend.xp, self._part.view
        assert self._flows is not None
        flows = xp.reshape(self._flows.values(examples), (view.n_positions, -1, examples.shape[0]))
        padded = xp.concat([examples, xp.zeros_like(examples[:, :1])], axis=1)
        arrays: list[Array] = []
        for elements, inputs in self._on_device:
            flow, x = xp.take(flows, elements, axis=1), xp.take(padded, inputs, axis=1)
            x = xp.reshape(x, (examples.shape[0], view.n_positions, -1))
            if not self._is_pooled:
                statistics = _gain_sums if self._criterion == "gain" else _variance_sums
                arrays += statistics(xp, flow[0, ...], x[:, 0, :], residual, curvature)
            else:
                arrays += self._pooled(flow, x, residual, curvature)
        return arrays

    def _pooled(self, flow: Array, x: Array, residual: Array, curvature: Array) -> list[Array]:
        """flow (n_positions, m, n), x (n, n_positions, v)."""
        xp, view, criterion = self._backend.xp, self._part.view, self._criterion
        by_example = xp.permute_dims(flow, (2, 1, 0))
        (n, m), v = by_example.shape[:2], x.shape[2]
        per_cell = []
        for cell in range(view.n_cells):
            first, stop = int(view.cell_start[cell]), int(view.cell_start[cell + 1])
            f = self._backend.copy(by_example[:, :, first:stop])
            phi = xp.reshape(f @ self._backend.copy(x[:, first:stop, :]), (n, m * v)) / (stop - first)
            f = xp.sum(f, axis=2) / (stop - first)
            weights = xp.reshape(xp.sum(phi, axis=0), (1, m, v)), xp.sum(f, axis=0)[None, :]
            feature = xp.sqrt(f) if view.root else f
            spread = xp.reshape(xp.broadcast_to(feature[:, :, None], (n, m, v)), (n, m * v))
            if criterion == "gain":
                phi = xp.sqrt(phi) if view.root else phi
                pairs = [(residual, phi), (residual, feature), (curvature, phi * phi), (curvature, phi * spread)]
                pairs.append((curvature, feature * feature))
            else:
                square, phi = residual * residual, phi * spread
                pairs = [(residual, phi), (residual, f * feature), (square, phi * spread)]
                pairs.append((square, f * feature * feature))
            sums = [signal @ values for signal, values in pairs]
            by_pair = [xp.reshape(a, (-1, m, v)) if i in _BY_PAIR[criterion] else a for i, a in enumerate(sums)]
            per_cell.append([*weights, *by_pair])
        return [xp.concat(arrays, axis=0) for arrays in zip(*per_cell, strict=True)]

    def best(
        self, totals: Iterator[NDArray[np.float64]], minimum_support: float, l2: float, per_element: int
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
        """(elements, variables, scores) of the best splits of every group, from the sums over all examples."""
        for elements, variables in self.groups:
            support, flow, *rest = islice(totals, _PER_GROUP[self._criterion])
            score = _gain(rest, l2) if self._criterion == "gain" else _variance(support, flow, rest)
            half = support.mean(axis=0)
            allowed = np.minimum(half, flow.mean(axis=0)[:, None] - half) >= minimum_support
            allowed &= _is_free(self._part.circuit, elements, variables)
            score = np.where(allowed & (score > 0), score, -np.inf)
            best = np.argsort(-score, axis=1, kind="stable")[:, :per_element]
            chosen = np.take_along_axis(score, best, axis=1)
            where, rank = np.nonzero(np.isfinite(chosen))
            yield elements[where], variables[best[where, rank]], chosen[where, rank]


def _groups(circuit: Circuit) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(elements, variables) of every vtree node that has something to split."""
    groups: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    if not circuit.n_elements:
        return groups
    elem_vtree = circuit.or_vtree[circuit.elem_or]
    order = np.argsort(elem_vtree, kind="stable")
    nodes, first = np.unique(elem_vtree[order], return_index=True)
    for node, elements in zip(nodes, np.split(order, first[1:]), strict=True):
        variables = circuit.vtree.scope(node).astype(np.int64)
        free = _is_free(circuit, elements, variables)
        elements, variables = elements[free.any(axis=1)], variables[free.any(axis=0)]
        if elements.size:
            groups.append((elements, variables))
    return groups


def _is_free(circuit: Circuit, elements: NDArray[np.int64], variables: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(n_elements, n_variables): whether neither literal of the variable is implied at the element."""
    column = {variable: index for index, variable in enumerate(variables.tolist())}
    free = np.ones((len(elements), len(variables)), dtype=bool)
    for row, element in enumerate(elements.tolist()):
        decided = circuit.implied[circuit.elem_prime[element]] | circuit.implied[circuit.elem_sub[element]]
        for literal in decided:
            index = column.get(literal % circuit.n_variables)
            if index is not None:
                free[row, index] = False
    return free


def _gain_sums(xp: Array, flow: Array, x: Array, residual: Array, curvature: Array) -> tuple[Array, ...]:
    """Sums f x (m, v) and f (m,); then per class G (k, m, v), G0 (k, m), H (k, m, v), C (k, m, v), D (k, m)."""
    first = residual[:, None, :] * flow
    second = curvature[:, None, :] * (flow * flow)
    return (
        (flow @ x)[None, ...],
        xp.sum(flow, axis=1)[None, :],
        first @ x,
        xp.sum(first, axis=2),
        second @ (x * x),
        second @ x,
        xp.sum(second, axis=2),
    )


def _gain(sums: list[NDArray[np.float64]], l2: float) -> NDArray[np.float64]:
    """(m, v) second-order gain, summed over classes."""
    G, G0, H, C, D = sums
    D = (D + l2)[:, :, None]
    G0 = G0[:, :, None]
    floor = np.finfo(np.float64).tiny
    numerator = (G - G0 * C / np.maximum(D, floor)) ** 2
    return np.asarray((numerator / np.maximum(H - C * C / np.maximum(D, floor) + l2, floor)).sum(axis=0))


def _variance_sums(xp: Array, flow: Array, x: Array, residual: Array, curvature: Array) -> tuple[Array, ...]:
    """Sums f x (m, v) and f (m,); then per class, with g = r f, of f x g, f g, f x g^2, f g^2: (k, m, v), (k, m) .."""
    derivative = residual[:, None, :] * flow
    first = derivative * flow
    second = first * derivative
    return (
        (flow @ x)[None, ...],
        xp.sum(flow, axis=1)[None, :],
        first @ x,
        xp.sum(first, axis=2),
        second @ x,
        xp.sum(second, axis=2),
    )


def _variance(
    support: NDArray[np.float64], flow: NDArray[np.float64], sums: list[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """(m, v) decrease of the summed variance: flow-weighted variance before less that within the two groups."""
    first_x, first, second_x, second = (a.reshape(len(flow), -1, *a.shape[1:]) for a in sums)  # (n_cells, n_sets, ...)
    floor = np.finfo(np.float64).tiny

    def scatter(weight: NDArray[np.float64], one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((two - one * one / np.maximum(weight, floor)[:, None]).sum(axis=1))

    rest = flow[:, :, None] - support
    within = scatter(support, first_x, second_x) + scatter(
        rest, first[..., None] - first_x, second[..., None] - second_x
    )
    before = scatter(flow, first, second)[..., None]
    return np.asarray(((before - within) / np.maximum(flow, floor)[..., None]).sum(axis=0))
