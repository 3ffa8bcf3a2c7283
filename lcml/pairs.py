"""Pairs (element, variable) of a part, and their sums over examples: in matrix products of all elements and variables of
a vtree node, or from the features that the pairs alone would give."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Array, Backend
from lcml.circuit import Circuit
from lcml.criteria import N_SUMS, Criterion, element_sums, grid_sums, pair_sums, scores
from lcml.features import FeatureMap
from lcml.parts import Part

Pairs = NDArray[np.int64]
"""(2, n_pairs) elements and variables."""

Sums = list[Array]

_FLOW_BYTES = 1 << 27
"""Flows of so many bytes are computed at a time where nothing is pooled: every weight set then makes more of that size.
"""

_BLOCK_PAIRS = 512
"""Pairs whose sums are formed at a time: with the examples of a chunk a megabyte, which a cache holds."""


def free_pairs(circuit: Circuit) -> Pairs:
    """Every element with every variable of its scope that neither literal of is implied at the element, by element."""
    found = [np.empty((2, 0), dtype=np.int64)]
    scopes: dict[int, NDArray[np.int64]] = {}
    for element, node in enumerate(circuit.or_vtree[circuit.elem_or].tolist()):
        if node not in scopes:
            scopes[node] = circuit.vtree.scope(node).astype(np.int64)
        decided = circuit.implied[circuit.elem_prime[element]] | circuit.implied[circuit.elem_sub[element]]
        names = {literal % circuit.n_variables for literal in decided}
        free = np.array([variable not in names for variable in scopes[node].tolist()])
        variables = scopes[node][free]
        found.append(np.stack([np.full(len(variables), element), variables]))
    return np.concatenate(found, axis=1)


def is_pooled(part: Part) -> bool:
    """Whether features are more than flows."""
    return part.view.n_positions > 1 or part.view.root


class ElementFlow:
    """The summed flow of every element of a part, averaged over the cells of its view."""

    def __init__(self, part: Part, backend: Backend) -> None:
        self._part, self._backend = part, backend
        self._map = FeatureMap(part.view, part.circuit, _flows(part, np.arange(part.circuit.n_elements)), backend)

    def sum(self, examples: Array) -> Array:
        """(n_elements,) over examples (n_examples, n_inputs)."""
        xp, n_cells = self._backend.xp, self._part.view.n_cells
        total = None
        for block in _blocks(examples.shape[0], self._backend.working_bytes // (4 * max(1, self._map.n_rows))):
            values = self._map.values(examples[block, :])
            flow = xp.sum(values * values if self._part.view.root else values, axis=1)
            total = flow if total is None else total + flow
        return xp.sum(xp.reshape(total, (n_cells, -1)), axis=0) / n_cells


class PairSums:
    """Sums of chosen pairs of a part; pairs that would give the same feature are computed once."""

    def __init__(self, part: Part, backend: Backend, criterion: Criterion, pairs: Pairs) -> None:
        self.part, self.pairs, self._backend, self._criterion = part, pairs, backend, criterion
        self._is_pooled = is_pooled(part)
        alike, n_variables = part.circuit.flow_class.astype(np.int64), part.circuit.n_variables
        _, first, self._which = np.unique(alike[pairs[0]] * n_variables + pairs[1], True, True)
        elements, variables = pairs[:, first]
        _, one, self._element = np.unique(alike[elements], True, True)
        self._n_elements, shown = len(one), _flows(part, elements[one])
        if self._is_pooled:
            self._map = FeatureMap(part.view, part.circuit, shown, backend, np.stack([elements, variables]))
        else:
            self._map = FeatureMap(part.view, part.circuit, shown, backend)
        self._blocks = [
            (block, backend.asarray(self._element[block]), backend.asarray(variables[block]))
            for block in _blocks(len(elements), _BLOCK_PAIRS)
        ]

    def sums(self, examples: Array, residual: Array, curvature: Array) -> Sums:
        """Those of `element_sums`, then those of `pair_sums`, with the rows of every cell in front."""
        total: Sums = []
        for some in _blocks(examples.shape[0], self._backend.working_bytes // (4 * self._map.n_rows)):
            arrays = self._some(examples[some, :], residual[:, some], curvature[:, some])
            total = [a + b for a, b in zip(total, arrays, strict=True)] if total else arrays
        return total

    def _some(self, examples: Array, residual: Array, curvature: Array) -> Sums:
        xp, view, criterion = self._backend.xp, self.part.view, self._criterion
        values = xp.reshape(self._map.values(examples), (view.n_cells, -1, examples.shape[0]))
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
                    new = of_element * xp.take(examples, variable, axis=1).T
                phi = new * new if view.root else new
                by_block.append(pair_sums(xp, criterion, phi, new, of_element, residual, curvature))
            pairs = [xp.concat(arrays, axis=1) for arrays in zip(*by_block, strict=True)]
            by_cell.append([*element_sums(xp, criterion, flow, feature, residual, curvature), *pairs])
        return [xp.concat(arrays, axis=0) for arrays in zip(*by_cell, strict=True)]

    def best(
        self, totals: Iterator[NDArray[np.float64]], minimum_support: float, l2: float, per_element: int
    ) -> tuple[Pairs, NDArray[np.float64]]:
        """The best pairs of every element, and their scores, from the sums over all examples."""
        score = _scores(self.part, self._criterion, totals, self._element, minimum_support, l2)[self._which]
        return _best(self.pairs, score, per_element)


class GridSums:
    """Sums of pairs of a part whose features are flows, of all elements of a vtree node with all variables of its scope
    at once."""

    def __init__(self, part: Part, backend: Backend, criterion: Criterion, pairs: Pairs) -> None:
        self.part, self.pairs, self._backend, self._criterion = part, pairs, backend, criterion
        elements, of_pair = np.unique(pairs[0], return_inverse=True)
        nodes = part.circuit.or_vtree[part.circuit.elem_or[elements]]
        order = np.argsort(nodes, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(nodes[order])) + 1)
        place = np.empty(len(elements), dtype=np.int64)
        place[order] = np.arange(len(elements))
        self._map = FeatureMap(part.view, part.circuit, _flows(part, elements[order]), backend)
        self._groups, self._element, self._columns = [], place[of_pair], np.empty(pairs.shape[1], dtype=np.int64)
        by_node = np.split(np.argsort(nodes[of_pair], kind="stable"), np.cumsum(np.bincount(nodes[of_pair])))
        first = column = 0
        for group in groups:
            mine = by_node[nodes[group[0]]]
            variables, which = np.unique(pairs[1, mine], return_inverse=True)
            self._columns[mine] = column + (self._element[mine] - first) * len(variables) + which
            self._groups.append((slice(first, first + len(group)), backend.asarray(variables)))
            first, column = first + len(group), column + len(group) * len(variables)

    def sums(self, examples: Array, residual: Array, curvature: Array) -> Sums:
        """As those of `PairSums`, of the grid's pairs."""
        total: Sums = []
        for some in _blocks(examples.shape[0], _FLOW_BYTES // (4 * self._map.n_rows)):
            arrays = self._some(examples[some, :], residual[:, some], curvature[:, some])
            total = [a + b for a, b in zip(total, arrays, strict=True)] if total else arrays
        return total

    def _some(self, examples: Array, residual: Array, curvature: Array) -> Sums:
        xp, flows = self._backend.xp, self._map.values(examples)
        by_group = [
            grid_sums(xp, self._criterion, flows[rows, :], xp.take(examples, variables, axis=1), residual, curvature)
            for rows, variables in self._groups
        ]
        return [xp.concat(arrays, axis=1) for arrays in zip(*by_group, strict=True)]

    def best(
        self, totals: Iterator[NDArray[np.float64]], minimum_support: float, l2: float, per_element: int
    ) -> tuple[Pairs, NDArray[np.float64]]:
        """As that of `PairSums`."""
        arrays = [next(totals) for _ in range(N_SUMS[self._criterion])]
        of_pairs = (array[:, self._columns] for array in arrays[3:])
        totals = iter([*arrays[:3], *of_pairs])
        return _best(
            self.pairs, _scores(self.part, self._criterion, totals, self._element, minimum_support, l2), per_element
        )


def _flows(part: Part, elements: NDArray[np.integer]) -> NDArray[np.integer]:
    """The numbers of elements among the flows."""
    return part.circuit.n_literals + elements


def _blocks(size: int, most: int) -> list[slice]:
    return [slice(first, min(first + max(1, most), size)) for first in range(0, size, max(1, most))]


def _scores(
    part: Part,
    criterion: Criterion,
    totals: Iterator[NDArray[np.float64]],
    element: NDArray[np.int64],
    minimum_support: float,
    l2: float,
) -> NDArray[np.float64]:
    """Of every pair; minus infinity where a half has too little flow or nothing is gained."""
    sums = [next(totals) for _ in range(N_SUMS[criterion])]
    score = scores(criterion, sums[:3], sums[3:], element, part.view.n_cells, l2)
    flow, half = sums[0].mean(axis=0)[element], sums[3].mean(axis=0)
    allowed = (np.minimum(half, flow - half) >= minimum_support) & (score > 0)
    return np.where(allowed, score, -np.inf)


def _best(pairs: Pairs, score: NDArray[np.float64], per_element: int) -> tuple[Pairs, NDArray[np.float64]]:
    order = np.lexsort((-score, pairs[0]))
    order = order[np.isfinite(score[order])]
    element = pairs[0, order]
    chosen = order[np.arange(len(order)) - np.searchsorted(element, element) < per_element]
    return pairs[:, chosen], score[chosen]
