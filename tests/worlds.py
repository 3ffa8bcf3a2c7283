"""What the tests of circuits share: random circuits, and truth by brute force over all worlds."""

import itertools

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml.circuits import vtree as vtrees
from lcml.circuits.basis import dependent_elements
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.splits import Split, apply_splits
from lcml.circuits.views import IdentityView
from lcml.circuits.vtree import Vtree


def all_worlds(n_variables: int) -> NDArray[np.float64]:
    """(2^n, n) every assignment of 0 and 1."""
    return np.array(list(itertools.product((0.0, 1.0), repeat=n_variables)))


def world_probabilities(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2^n,) probability of every world when X_v is true with probability q[v], independently."""
    worlds = all_worlds(len(q))
    return np.asarray(np.where(worlds == 1, q, 1 - q).prod(axis=1))


def truth(circuit: Circuit) -> NDArray[np.bool_]:
    """(n_nodes, 2^n) whether each node is true in each world, by plain recursion on the definition."""
    worlds = all_worlds(circuit.n_variables).astype(bool)
    rows = [worlds[:, v] for v in range(circuit.n_variables)]
    rows += [~worlds[:, v] for v in range(circuit.n_variables)]
    for gate in range(circuit.n_or_gates):
        rows.append(np.any([rows[p] & rows[s] for p, s in circuit.elements_of(gate)], axis=0))
    return np.array(rows)


def brute_flows(circuit: Circuit, q: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n_elements,) element flows: the probability that a world's one proof of the root uses the element.

    In each world the proof starts at the root and follows the one true element of every gate it meets.
    """
    true, weight = truth(circuit), world_probabilities(q)
    flow = np.zeros(circuit.n_elements)
    met = np.zeros_like(true)  # which nodes the proof of each world meets
    met[-1] = True
    for gate in reversed(range(circuit.n_or_gates)):
        here = met[circuit.n_literals + gate]
        n_used = np.zeros(len(weight), dtype=int)
        for element, (p, s) in enumerate(circuit.elements_of(gate), circuit.or_start[gate]):
            used = here & true[p] & true[s]
            flow[element] = weight[used].sum()
            met[[p, s]] |= used
            n_used += used
        assert np.array_equal(n_used, here)
    return flow


def free_variables(circuit: Circuit, element: int) -> list[int]:
    """Variables on which `element` can be split."""
    decided = circuit.implied[circuit.elem_prime[element]] | circuit.implied[circuit.elem_sub[element]]
    scope = circuit.vtree.scope(circuit.or_vtree[circuit.elem_or[element]]).tolist()
    return [v for v in scope if v not in decided and v + circuit.n_variables not in decided]


def random_splits(circuit: Circuit, generator: np.random.Generator, most: int) -> list[Split]:
    """Up to `most` splits of different elements."""
    splits: list[Split] = []
    for element in generator.permutation(circuit.n_elements).tolist():
        free = free_variables(circuit, element)
        if free and len(splits) < most:
            splits.append(Split(element, int(generator.choice(free))))
    return splits


def grown(vtree: Vtree, seed: int, rounds: int, per_round: int = 3, depth: int = 0) -> Circuit:
    """The initial circuit after some rounds of random splits."""
    generator = np.random.default_rng(seed)
    circuit = initial_circuit(vtree)
    for _ in range(rounds):
        circuit = apply_splits(circuit, random_splits(circuit, generator, per_round), depth).circuit
    return circuit


def whole(circuit: Circuit) -> Part:
    """The part that sees every variable and gives every literal and element weights."""
    return Part.full(IdentityView(circuit.n_variables), circuit)


def independent(circuit: Circuit) -> Part:
    """The part that sees every variable and gives independent elements weights, as a part that is learned."""
    weighted = np.concatenate([np.zeros(circuit.n_literals), np.ones(circuit.n_elements)]).astype(bool)
    weighted[circuit.n_literals + dependent_elements(circuit)] = False
    return Part(IdentityView(circuit.n_variables), circuit, weighted)


@st.composite
def random_vtrees(draw: st.DrawFn, most: int = 7) -> Vtree:
    """A vtree of any kind over 1 to `most` variables."""
    n = draw(st.integers(1, most))
    seed = draw(st.integers(0, 2**16))
    kinds = [
        lambda: vtrees.balanced(n),
        lambda: vtrees.right_linear(n),
        lambda: vtrees.random(n, seed),
        lambda: vtrees.grid(1, n, (0, seed % 2)),
    ]
    return draw(st.sampled_from(kinds))()


@st.composite
def random_circuits(draw: st.DrawFn, most: int = 7) -> Circuit:
    """A circuit grown by random splits over a random vtree."""
    return grown(
        draw(random_vtrees(most)),
        seed=draw(st.integers(0, 2**16)),
        rounds=draw(st.integers(0, 4)),
        per_round=draw(st.integers(1, 4)),
        depth=draw(st.integers(0, 2)),
    )


def examples(n_variables: int, n_examples: int, seed: int) -> NDArray[np.float64]:
    """(n_examples, n_variables) in [0, 1], with some exact zeros and ones."""
    generator = np.random.default_rng(seed)
    q = generator.random((n_examples, n_variables))
    return np.where(generator.random(q.shape) < 0.2, np.round(q), q)
