"""The features of a data set: the flows of all literals and elements, kept in memory where they fit.

A chunk of examples is an array (n_rows, n_examples): rows 0..2n-1 are the literals, the others belong to elements, in
an order of the store's own (`rows`). Kept features grow with the circuit: after a round of splits only what flows
through new elements is computed. Features that would exceed the budget are recomputed, chunk by chunk, whenever they
are read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Array, Backend, Precision
from lcml.circuit import Circuit
from lcml.flows import check_probabilities, flows, literal_rows
from lcml.plan import FlowPlan, compile_plan
from lcml.rows import Matrix
from lcml.splits import SplitResult

_Out = TypeVar("_Out")

_RUNS = 16
"""Partial sums over chunks; more than the cores of most machines, few enough to add up at no cost."""

_SPARE_ROWS = 1.25
"""A kept chunk that must grow is given this much more than it needs now."""


class FeatureStore:
    """Flows of a circuit for encoded examples (n_examples, n_variables), by chunks.

    budget: bytes that kept features may take (default: the backend's). Raises DataError where the examples are not in
    [0, 1] or of the wrong width.
    """

    def __init__(
        self,
        circuit: Circuit,
        examples: Matrix,
        backend: Backend,
        *,
        precision: Precision = "float32",
        budget: int | None = None,
    ) -> None:
        self.circuit, self.backend = circuit, backend
        self.n_examples = len(examples)
        self._examples = examples
        self._dtype = np.dtype(precision)
        self._budget = backend.memory_budget() if budget is None else budget
        self._plan: FlowPlan | None = None
        self._elem_row = np.arange(circuit.n_literals, circuit.n_literals + circuit.n_elements)
        for part in self._slices():
            check_probabilities(examples[part], circuit.n_variables)
        self._kept: list[Array] | None = None
        if self._fits(len(self.rows)):
            self._keep()

    @property
    def is_kept(self) -> bool:
        """Whether the features are in memory, or else recomputed at every reading."""
        return self._kept is not None

    @property
    def rows(self) -> NDArray[np.int64]:
        """(2 n_variables + n_elements,) the row of every literal and element in a chunk."""
        return np.concatenate([np.arange(self.circuit.n_literals), self._elem_row])

    @property
    def n_rows(self) -> int:
        """Rows of a chunk; rows that belong to no feature hold finite numbers that mean nothing."""
        return int(self.rows.max()) + 1

    @property
    def n_chunks(self) -> int:
        return -(-self.n_examples // self.backend.chunk_examples)

    def share(self, chunks: Sequence[int]) -> float:
        """The share of all examples that `chunks` hold."""
        size = self.backend.chunk_examples
        return sum(min(size, self.n_examples - chunk * size) for chunk in chunks) / self.n_examples

    def map(self, function: Callable[[slice, Array], _Out], which: Sequence[int] | None = None) -> Iterator[_Out]:
        """function(examples, values) of all chunks in order, or of the chunks `which`; on the CPU several at a time.

        values (n_rows, n_examples of the chunk) belongs to the store: do not change it.
        """
        read = self._reader()
        return self.backend.map(lambda index: function(*read(index)), range(self.n_chunks) if which is None else which)

    def sum(
        self, function: Callable[[slice, Array], tuple[Array, ...]], which: Sequence[int] | None = None
    ) -> list[Array]:
        """The sum over chunks of the arrays that `function` returns, in float64.

        Chunks are added up in a fixed number of runs, so that the result does not depend on the number of threads.
        """
        read, xp = self._reader(), self.backend.xp
        chosen = np.arange(self.n_chunks) if which is None else np.asarray(which)

        def add_up(run: NDArray[np.int64]) -> list[Array]:
            total: list[Array] = []
            for index in run:
                arrays = [xp.astype(array, xp.float64) for array in function(*read(index))]
                total = [a + b for a, b in zip(total, arrays, strict=True)] if total else arrays
            return total

        runs = [run for run in np.array_split(chosen, _RUNS) if run.size]
        totals = list(self.backend.map(add_up, runs))
        return [sum(arrays[1:], start=arrays[0]) for arrays in zip(*totals, strict=True)]

    def grow(self, result: SplitResult) -> None:
        """Follow the circuit through a round of splits."""
        old_row, circuit = self._elem_row, result.circuit
        self.circuit, self._plan = circuit, None
        if self._kept is not None:
            kept_rows = old_row[result.origin[result.kept]]
            spare = np.setdiff1d(np.arange(circuit.n_literals, circuit.n_literals + circuit.n_elements), kept_rows)
            self._elem_row = np.empty(circuit.n_elements, dtype=np.int64)
            self._elem_row[result.kept] = kept_rows
            self._elem_row[~result.kept] = spare[: np.count_nonzero(~result.kept)]
            if circuit.is_product and self._fits(self.n_rows):
                steps = _growth_steps(circuit, ~result.kept, self._elem_row, self.backend)
                self._kept = list(
                    self.backend.map(
                        lambda chunk: _apply_steps(steps, self._with_room(chunk), self.backend), self._kept
                    )
                )
                return
        self._elem_row = np.arange(circuit.n_literals, circuit.n_literals + circuit.n_elements)
        self._kept = None
        if self._fits(self.n_rows):
            self._keep()

    def _keep(self) -> None:
        self._compile()
        self._kept = list(self.backend.map(self._fresh, self._slices()))

    def _compile(self) -> FlowPlan:
        if self._plan is None:
            self._plan = compile_plan(self.circuit, self.backend)
        return self._plan

    def _reader(self) -> Callable[[int], tuple[slice, Array]]:
        """The (examples, values) of a chunk by its number."""
        slices, n_rows, kept = list(self._slices()), self.n_rows, self._kept
        if kept is None:
            self._compile()
            return lambda index: (slices[index], self._fresh(slices[index]))
        return lambda index: (slices[index], kept[index][:n_rows, :])

    def _slices(self) -> Iterator[slice]:
        size = self.backend.chunk_examples
        return (slice(first, min(first + size, self.n_examples)) for first in range(0, self.n_examples, size))

    def _fits(self, n_rows: int) -> bool:
        return n_rows * self.n_examples * self._dtype.itemsize <= self._budget

    def _fresh(self, part: slice) -> Array:
        plan = self._compile()
        return flows(plan, literal_rows(plan, self.backend.asarray(self._examples[part], dtype=self._dtype)))

    def _with_room(self, chunk: Array) -> Array:
        n_rows = self.n_rows
        if len(chunk) >= n_rows:
            return chunk
        larger = self.backend.xp.zeros((int(n_rows * _SPARE_ROWS), chunk.shape[1]), dtype=self._dtype)
        larger[: len(chunk)] = chunk
        return larger


@dataclass(frozen=True, eq=False)
class _GrowthStep:
    """New element flows under the or gates of one level: flow of the gate times the literals decided at the element.

    wires (n_wires,): rows of the elements that lead to the gates; None at the root; offsets (n_gates + 1,);
    gate (n_new,): index of each new element's gate; target (n_new,): its row;
    factors: per rank, which new elements have a further decided literal, and its row.
    """

    wires: Array | None
    offsets: Array
    gate: Array
    target: Array
    factors: tuple[tuple[Array, Array], ...]


def _growth_steps(
    circuit: Circuit, is_new: NDArray[np.bool_], elem_row: NDArray[np.int64], backend: Backend
) -> list[_GrowthStep]:
    """The steps that fill the rows of new elements, from the root down.

    In a product circuit Pr(element) / Pr(gate) is the product of the literals that the element implies and its gate
    does not, so flows need no up pass; an or gate's flow is the sum of the flows of the elements that lead to it.
    """

    def device(values: Sequence[int] | NDArray[np.int64]) -> Array:
        return backend.asarray(np.asarray(values, dtype=np.int64))

    implied, n_literals = circuit.implied, circuit.n_literals
    child = np.concatenate([circuit.elem_prime, circuit.elem_sub])
    element = np.tile(np.arange(circuit.n_elements), 2)
    order = np.argsort(child, kind="stable")
    wire_element = element[order]
    wire_start = np.searchsorted(child[order], np.arange(circuit.n_nodes + 1))
    prime, sub, elem_or = circuit.elem_prime.tolist(), circuit.elem_sub.tolist(), circuit.elem_or.tolist()

    steps = []
    for first, stop in reversed(list(circuit.levels())):
        span = np.arange(circuit.or_start[first], circuit.or_start[stop])
        new = span[is_new[span]]
        if not new.size:
            continue
        gates, gate_index = np.unique(circuit.elem_or[new], return_inverse=True)
        bounds = [(wire_start[n_literals + g], wire_start[n_literals + g + 1]) for g in gates]
        wires = np.concatenate([wire_element[low:high] for low, high in bounds])
        decided = [sorted((implied[prime[e]] | implied[sub[e]]) - implied[n_literals + elem_or[e]]) for e in new]
        ranks = max(map(len, decided))
        factors = [
            (
                device([i for i, literals in enumerate(decided) if len(literals) > rank]),
                device([literals[rank] for literals in decided if len(literals) > rank]),
            )
            for rank in range(ranks)
        ]
        steps.append(
            _GrowthStep(
                wires=device(elem_row[wires]) if wires.size else None,
                offsets=device(np.cumsum([0] + [high - low for low, high in bounds])),
                gate=device(gate_index),
                target=device(elem_row[new]),
                factors=tuple(factors),
            )
        )
    return steps


def _apply_steps(steps: list[_GrowthStep], chunk: Array, backend: Backend) -> Array:
    xp = backend.xp
    for step in steps:
        if step.wires is None:
            values = xp.ones((len(step.target), chunk.shape[1]), dtype=chunk.dtype)
        else:
            gate_flow = backend.segment_sum(xp.take(chunk, step.wires, axis=0), step.offsets)
            values = xp.take(gate_flow, step.gate, axis=0)
        for which, literal in step.factors:
            if len(which) == len(values):
                values *= xp.take(chunk, literal, axis=0)
            else:
                values[which] *= xp.take(chunk, literal, axis=0)
        chunk[step.target] = values
    return chunk
