"""Lower bounds of margins where inputs are only known to lie between two ends.

The margin of the predicted class over another is linear in the features, with the difference of their weights. A world
that a circuit admits has one proof: a choice of an element at every or gate met. Its margin is the sum of the weights
on the proof, so over all worlds

    M(literal) = 0,   M(element) = weight + M(prime) + M(sub),   M(or gate) = min over its possible elements

is the least, exactly (Liang & Van den Broeck, AAAI 2019, Proposition 3, with a minimum in place of the mean). Where the
probabilities of all elements of a gate are known, their mean is taken instead. What literals weigh is linear in the
variables: it is counted input by input. Square roots of pooled flows are bounded feature by feature, flows from
below and above by the passes with the least and the largest probabilities.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lcml.arrays import FloatArray
from lcml.backend import get_backend
from lcml.circuits.parts import Part
from lcml.explain.domains import Domain
from lcml.model.head import log_odds_of
from lcml.model.model import LogisticCircuit
from lcml.passes.flows import node_probabilities, or_derivatives
from lcml.passes.plan import FlowPlan, compile_plan


@dataclass(frozen=True, eq=False)
class Margins:
    """The margins of class number `code` over every other, in their order: of two classes one, by the threshold.

    ties (n_margins,): whether a margin of 0 keeps the decision, which a tie gives to the first class.
    """

    model: LogisticCircuit
    code: int

    @cached_property
    def signs(self) -> FloatArray:
        """(n_margins, n_sets): margins = signs @ logits + offset."""
        n_sets = len(self.model.bias)
        if n_sets == 1:
            return np.array([[1.0 if self.code == 1 else -1.0]])
        every = np.eye(n_sets)
        return np.delete(every[self.code] - every, self.code, axis=0)

    @cached_property
    def offset(self) -> FloatArray:
        """(n_margins,) what the threshold of two classes adds."""
        log_odds = log_odds_of(self.model.threshold)
        return np.full(len(self.signs), -log_odds if self.code == 1 else log_odds)

    @cached_property
    def ties(self) -> NDArray[np.bool_]:
        if len(self.model.bias) == 1:
            return np.array([self.code == 0])
        return np.delete(self.code < np.arange(len(self.model.bias)), self.code)

    def of(self, domain: Domain, codes: FloatArray) -> FloatArray:
        """(n, n_margins) of examples with these codes (n, d)."""
        return self.model.logits(domain.raw(codes), precision="float64") @ self.signs.T + self.offset

    def kept(self, margins: FloatArray) -> NDArray[np.bool_]:
        """(n, n_margins) whether margins, or what they are at least, keep the decision."""
        return np.where(self.ties, margins >= 0, margins > 0)


class MarginBounds:
    """Lower bounds of margins. linear (n_margins, n_outputs): what a variable adds alone; the rest is by part."""

    def __init__(self, margins: Margins) -> None:
        model = margins.model
        self.linear = np.zeros((len(margins.signs), model.encoder.n_outputs + 1))
        self._constant = margins.signs @ model.bias + margins.offset
        self._parts: list[_PartBound] = []
        for part, weights in zip(model.parts, model.flow_weights, strict=True):
            own = np.tensordot(margins.signs, weights, axes=1)
            if part.circuit.is_tautology and not part.view.root:
                own = self._without_literals(part, own)
            if own.any():
                self._parts.append(_PartBound(part, own))
        self.linear = self.linear[:, :-1]

    @property
    def size(self) -> int:
        """Nodes of circuits, times the positions of their views, that a bound looks at."""
        return sum(bound.size for bound in self._parts)

    def rest(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """(n, n_margins) at least what all but `linear` adds, for variables (n, n_outputs) between these ends."""
        return self._constant + sum((bound.least(low, high) for bound in self._parts), start=0)

    def _without_literals(self, part: Part, weights: FloatArray) -> FloatArray:
        """The weights (n_margins, n_cells, n_flows) of elements; those of literals go over to `linear`."""
        n, view = part.circuit.n_variables, part.view
        for cell, (first, stop) in enumerate(pairwise(view.cell_start.tolist())):
            true, false = weights[:, cell, :n], weights[:, cell, n : 2 * n]
            self._constant = self._constant + false.sum(axis=1)
            for read, share in zip(view.index[first:stop], view.position_share[first:stop], strict=True):
                np.add.at(self.linear.T, read, (true - false).T * share)
        return np.concatenate([np.zeros_like(weights[..., : 2 * n]), weights[..., 2 * n :]], axis=2)


class _PartBound:
    """The bound of what one part adds, for weights (n_margins, n_cells, n_flows) of its flows."""

    def __init__(self, part: Part, weights: FloatArray) -> None:
        self._part, self._weights = part, weights
        self._plan: FlowPlan = compile_plan(part.circuit, get_backend("numpy"))
        self.size = part.view.n_positions * (part.circuit.n_nodes + part.circuit.n_elements)

    @cached_property
    def _implied(self) -> csr_array | None:
        """(n_nodes, 2 n_variables) the literals whose product a node's probability is; None where it is no product."""
        circuit = self._part.circuit
        if not circuit.is_product:
            return None
        literals = [sorted(of) for of in circuit.implied]
        starts = np.cumsum([0, *map(len, literals)])
        flat = np.array([literal for of in literals for literal in of], np.intp)
        return csr_array((np.ones(len(flat)), flat, starts), shape=(circuit.n_nodes, circuit.n_literals))

    def least(self, low: FloatArray, high: FloatArray) -> FloatArray:
        view, n = self._part.view, len(low)
        total = np.zeros((n, len(self._weights)))
        low, high = (np.concatenate([ends, np.zeros((n, 1))], axis=1) for ends in (low, high))
        for cell, (first, stop) in enumerate(pairwise(view.cell_start.tolist())):
            read = view.index[first:stop]
            of_cell = self._roots if view.root else self._means
            least, most = (values[:, read].reshape(-1, read.shape[1]).T for values in (low, high))
            total += of_cell(self._weights[:, cell], least, most, view.position_share[first:stop])
        return total

    def _means(self, weights: FloatArray, low: FloatArray, high: FloatArray, shares: FloatArray) -> FloatArray:
        least = np.stack([self._least_proofs(of, low, high) for of in weights])
        return np.asarray((least.reshape(len(weights), -1, len(shares)) @ shares).T)

    def _least_proofs(self, weights: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """(n,) the least mean of M at the root, for variables (n_variables, n) between these ends."""
        circuit = self._part.circuit
        least, most = self._probabilities(low, high)
        value = np.zeros((circuit.n_nodes, low.shape[1]))
        value[: circuit.n_literals] = weights[: circuit.n_literals, None]
        for level in self._plan.levels:
            gates = slice(circuit.n_literals + level.first, circuit.n_literals + level.stop)
            first = int(circuit.or_start[level.first])
            of_level = weights[circuit.n_literals + first : circuit.n_literals + first + len(level.prime), None]
            rows = of_level + value[level.prime] + value[level.sub]
            share, at_most = (ends[level.prime] * ends[level.sub] for ends in (least, most))
            starts = level.offsets[:-1]
            rows = np.where(at_most > 0, rows, np.inf)
            found = np.minimum.reduceat(rows, starts, axis=0)
            known = np.minimum.reduceat(share == at_most, starts, axis=0)
            whole = np.add.reduceat(share, starts, axis=0)
            mean = np.add.reduceat(np.where(share > 0, rows, 0) * share, starts, axis=0)
            value[gates] = np.where(known & (whole > 0), mean / np.where(whole > 0, whole, 1), found)
        return np.asarray(value[-1])

    def _roots(self, weights: FloatArray, low: FloatArray, high: FloatArray, shares: FloatArray) -> FloatArray:
        ends = []
        for probability in self._probabilities(low, high):
            circuit, plan = self._part.circuit, self._plan
            flows = probability[: circuit.n_literals]
            if circuit.n_or_gates:
                reached = np.minimum(or_derivatives(plan, probability), 1)
                of_elements = reached[plan.elem_or] * probability[plan.elem_prime] * probability[plan.elem_sub]
                flows = np.concatenate([flows, of_elements])
            pooled = flows.reshape(len(flows), -1, len(shares)) @ shares
            ends.append(np.sqrt(np.clip(pooled, 0, 1)))
        return np.asarray((np.maximum(weights, 0) @ ends[0] + np.minimum(weights, 0) @ ends[1]).T)

    def _probabilities(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n_nodes, n) between which the probability of every node lies."""
        found = []
        for literals in (np.concatenate([low, 1 - high]), np.concatenate([high, 1 - low])):
            if self._implied is not None:
                with np.errstate(divide="ignore"):
                    found.append(np.exp(self._implied @ np.log(literals)))
            else:
                found.append(np.minimum(node_probabilities(self._plan, literals), 1))
        return found[0], found[1]
