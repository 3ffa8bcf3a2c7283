"""A part of a model: a circuit, what it reads of an example, and which of its features carry weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray, IntArray, frozen
from lcml.circuits.basis import dependent_elements
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.splits import SplitResult
from lcml.circuits.views import View
from lcml.circuits.vtree import Vtree
from lcml.errors import CircuitError


@dataclass(frozen=True, eq=False)
class Part:
    """A circuit over the variables that `view` shows it.

    weighted (2 n_variables + n_elements,): whether each literal and element carries weights. The features
    of a part are, cell by cell, its weighted literals and elements in order. Raises CircuitError where the
    sizes do not fit together.
    """

    view: View
    circuit: Circuit
    weighted: NDArray[np.bool_]

    def __post_init__(self) -> None:
        n_flows = self.circuit.n_literals + self.circuit.n_elements
        weighted = frozen(self.weighted, bool)
        if weighted.shape != (n_flows,):
            raise CircuitError(f"part: expected {n_flows} marks of what carries weights, found {weighted.shape}")
        if self.view.n_variables != self.circuit.n_variables:
            n_shown, n_read = self.view.n_variables, self.circuit.n_variables
            raise CircuitError(f"part: the view shows {n_shown} variables, the circuit has {n_read}")
        object.__setattr__(self, "weighted", weighted)

    @classmethod
    def full(cls, view: View, circuit: Circuit) -> "Part":
        """The part in which every literal and element carries weights."""
        return cls(view, circuit, np.ones(circuit.n_literals + circuit.n_elements, dtype=bool))

    @property
    def flows(self) -> NDArray[np.int64]:
        """(n_weighted,) the weighted literals and elements, by their numbers among the flows."""
        return np.flatnonzero(self.weighted)

    @property
    def dropped(self) -> IntArray:
        """The elements without weights; of a part that is learned, one of every or gate."""
        return frozen(np.flatnonzero(~self.weighted[self.circuit.n_literals :]))

    @property
    def n_features(self) -> int:
        return self.view.n_cells * int(np.count_nonzero(self.weighted))

    def dense(self, weights: FloatArray) -> FloatArray:
        """(n_sets, n_cells, 2 n_variables + n_elements) weights of all flows, from (n_sets, n_features); else 0."""
        full = np.zeros((len(weights), self.view.n_cells, len(self.weighted)))
        full[..., self.weighted] = weights.reshape(len(weights), self.view.n_cells, -1)
        return full


def needed(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Those that carry weights or exclude worlds; where none does the first, so that a model has one."""
    found = tuple(part for part in parts if part.n_features or not part.circuit.is_tautology)
    return found or tuple(parts[:1])


def initial_part(view: View, vtree: Vtree) -> Part:
    """The part that learning starts from: weights for independent elements (over one variable for the literal X_0)."""
    circuit = initial_circuit(vtree)
    weighted = np.arange(circuit.n_literals + circuit.n_elements) >= circuit.n_literals
    weighted[circuit.n_literals + dependent_elements(circuit)] = False
    if not circuit.n_or_gates:
        weighted[0] = True
    return Part(view, circuit, weighted)


@dataclass(frozen=True, eq=False)
class GrownPart:
    """A part after a round of splits. origin (n_flows,): the flow whose weight each flow inherits; unchanged
    (n_flows,): whether it is the same flow for every example."""

    part: Part
    origin: NDArray[np.int64]
    unchanged: NDArray[np.bool_]


def grow_part(part: Part, result: SplitResult) -> GrownPart:
    """Follow the circuit through a round of splits; independent elements carry weights before and after."""
    circuit, n_literals = result.circuit, result.circuit.n_literals
    origin = np.concatenate([np.arange(n_literals), n_literals + result.origin])
    unchanged = np.concatenate([np.ones(n_literals, dtype=bool), result.unchanged])
    weighted = part.weighted[origin]
    weighted[n_literals:] = True
    weighted[n_literals + dependent_elements(circuit, ~part.weighted[origin][n_literals:])] = False
    return GrownPart(Part(part.view, circuit, weighted), origin, unchanged)
