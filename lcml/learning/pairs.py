"""Pairs (element, variable) of a part, and their sums over examples."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Array, Backend
from lcml.circuits.circuit import Circuit
from lcml.circuits.parts import Part
from lcml.learning.criteria import N_SUMS, Criterion, element_sums, pair_sums, scores
from lcml.passes.feature_map import FeatureMap
from lcml.passes.products import NO_PAIRS

Pairs = NDArray[np.int64]
"""(2, n_pairs) elements and variables."""

Sums = list[Array]

_BLOCK_PAIRS = 512
"""Pairs whose sums are formed at a time: with the examples of a chunk a megabyte, which a cache holds."""


def free_pairs(circuit: Circuit) -> Pairs:
    """Every element with every variable of its scope that neither literal of is implied at the element, by element."""
    vtree, implied = circuit.vtree, circuit.implied
    scope = vtree.scope_range[circuit.or_vtree[circuit.elem_or]].astype(np.int64)
    sizes = scope[:, 1] - scope[:, 0]
    first = np.cumsum(sizes) - sizes  # pairs stand element by element, variables from left to right
    element = np.repeat(np.arange(circuit.n_elements), sizes)
    place = np.arange(len(element)) + np.repeat(scope[:, 0] - first, sizes)
    children = enumerate(zip(circuit.elem_prime.tolist(), circuit.elem_sub.tolist(), strict=True))
    decided = [(e, literal) for e, nodes in children for node in nodes for literal in implied[node]]
    of_element, literals = np.array(decided, dtype=np.int64).reshape(-1, 2).T
    free = np.ones(len(element), dtype=bool)
    position = np.argsort(vtree.leaf_order)[literals % circuit.n_variables]
    free[first[of_element] + position - scope[of_element, 0]] = False
    return np.stack([element[free], vtree.leaf_order[place[free]].astype(np.int64)])


class ElementFlow:
    """The summed flow of every element of a part, by the weights of the examples, averaged over its cells."""

    def __init__(self, part: Part, backend: Backend) -> None:
        self._part, self._backend = part, backend
        flows = part.circuit.n_literals + np.arange(part.circuit.n_elements)
        self._map = FeatureMap(part.view, part.circuit, flows, backend)

    def sum(self, examples: Array, weight: Array) -> Array:
        """(n_elements,) over examples (n_examples, n_inputs) of weight (n_examples, 1)."""
        xp, n_cells = self._backend.xp, self._part.view.n_cells
        total = None
        for block in _blocks(examples.shape[0], self._backend.working_bytes // (4 * max(1, self._map.n_rows))):
            values = self._map.values(examples[block, :])
            flow = (values * values if self._part.view.root else values) @ weight[block, :]
            total = flow if total is None else total + flow
        return xp.sum(xp.reshape(total, (n_cells, -1)), axis=0) / n_cells


class PairSums:
    """Sums of chosen pairs of a part; pairs that would give the same feature are computed once."""

    def __init__(self, part: Part, backend: Backend, criterion: Criterion, pairs: Pairs) -> None:
        self.part, self.pairs, self._backend, self._criterion = part, pairs, backend, criterion
        self._is_pooled = part.view.n_positions > 1 or part.view.root  # features are more than flows
        alike, n_variables = part.circuit.flow_class.astype(np.int64), part.circuit.n_variables
        _, first, self._which = np.unique(alike[pairs[0]] * n_variables + pairs[1], True, True)
        elements, variables = pairs[:, first]
        _, one, self._element = np.unique(alike[elements], True, True)
        self._n_elements, shown = len(one), part.circuit.n_literals + elements[one]
        products = np.stack([elements, variables]) if self._is_pooled else NO_PAIRS
        self._map = FeatureMap(part.view, part.circuit, shown, backend, products)
        self._blocks = [
            (block, backend.asarray(self._element[block]), backend.asarray(variables[block]))
            for block in _blocks(len(elements), _BLOCK_PAIRS)
        ]

    def sums(self, examples: Array, weight: Array, first: Array, second: Array) -> Sums:
        """Those of `element_sums`, then those of `pair_sums`, with the rows of every cell in front."""
        total: Sums = []
        for some in _blocks(examples.shape[0], self._backend.working_bytes // (4 * self._map.n_rows)):
            arrays = self._some(examples[some, :], *(array[some, :] for array in (weight, first, second)))
            total = [a + b for a, b in zip(total, arrays, strict=True)] if total else arrays
        return total

    def _some(self, examples: Array, *derivatives: Array) -> Sums:
        xp, view, criterion = self._backend.xp, self.part.view, self._criterion
        values = xp.reshape(self._map.values(examples), (view.n_cells, -1, examples.shape[0]))
        x = None if self._is_pooled else self._backend.copy(examples.T)
        by_cell = []
        for cell in range(view.n_cells):
            feature = values[cell, : self._n_elements, :]
            flow = feature * feature if view.root else feature
            by_block = []
            for block, element, variable in self._blocks:
                of_element = xp.take(feature, element, axis=0)
                if self._is_pooled:
                    new = values[cell, self._n_elements + block.start : self._n_elements + block.stop, :]
                else:
                    new = of_element * xp.take(x, variable, axis=0)
                phi = new * new if view.root else new
                by_block.append(pair_sums(criterion, phi, new, of_element, *derivatives))
            pairs = [xp.concat(arrays, axis=1) for arrays in zip(*by_block, strict=True)]
            by_cell.append([*element_sums(criterion, flow, feature, *derivatives), *pairs])
        return [xp.concat(arrays, axis=0) for arrays in zip(*by_cell, strict=True)]

    def best(
        self, totals: Iterator[NDArray[np.float64]], minimum_support: float, l2: float, per_element: int
    ) -> tuple[Pairs, NDArray[np.float64]]:
        """The best pairs of every element, and their scores, from the sums over all examples."""
        sums = [next(totals) for _ in range(N_SUMS[self._criterion])]
        score = scores(self._criterion, sums[:3], sums[3:], self._element, self.part.view.n_cells, l2)
        flow, half = sums[0].mean(axis=0)[self._element], sums[3].mean(axis=0)
        allowed = (np.minimum(half, flow - half) >= minimum_support) & (score > 0)
        score = np.where(allowed, score, -np.inf)[self._which]
        order = np.lexsort((-score, self.pairs[0]))
        order = order[np.isfinite(score[order])]
        element = self.pairs[0, order]
        chosen = order[np.arange(len(order)) - np.searchsorted(element, element) < per_element]
        return self.pairs[:, chosen], score[chosen]


def _blocks(size: int, most: int) -> list[slice]:
    return [slice(first, min(first + max(1, most), size)) for first in range(0, size, max(1, most))]
