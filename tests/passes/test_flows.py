"""The passes against brute force over all worlds, and against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcml.backend import Backend, CupyBackend, NumpyBackend, cuda_is_available
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.errors import ContradictionError, DataError
from lcml.passes.flows import check_probabilities, flows, literal_rows, node_probabilities
from lcml.passes.plan import FlowPlan, compile_plan

from ..strict import StrictBackend
from ..worlds import brute_flows, examples, grown, random_circuits, truth, world_probabilities

NUMPY = NumpyBackend()


def all_flows(circuit: Circuit, q: np.ndarray, backend: Backend = NUMPY) -> np.ndarray:
    plan = compile_plan(circuit, backend)
    return np.asarray(backend.to_host(flows(plan, literal_rows(plan, backend.asarray(q)))))


@settings(deadline=None)
@given(random_circuits(), st.integers(0, 2**16))
def test_node_probabilities_are_sums_over_worlds(circuit: Circuit, seed: int) -> None:
    q = examples(circuit.n_variables, 3, seed)
    plan = compile_plan(circuit, NUMPY)
    found = node_probabilities(plan, literal_rows(plan, q))
    expected = [truth(circuit) @ world_probabilities(row) for row in q]
    np.testing.assert_allclose(found, np.array(expected).T, atol=1e-10)


@settings(deadline=None)
@given(random_circuits(), st.integers(0, 2**16))
def test_flows_are_shares_of_worlds(circuit: Circuit, seed: int) -> None:
    if not circuit.n_or_gates:
        return
    q = examples(circuit.n_variables, 3, seed)
    expected = np.array([brute_flows(circuit, row) for row in q]).T
    found = all_flows(circuit, q)
    np.testing.assert_allclose(found[circuit.n_literals :], expected, atol=1e-10)
    np.testing.assert_allclose(found[: circuit.n_literals], np.concatenate([q.T, 1 - q.T]), atol=1e-10)


def test_twelve_variables_by_brute_force() -> None:
    circuit = grown(vtrees.grid(3, 4), seed=5, rounds=4, per_round=5, depth=1)
    q = examples(12, 2, seed=6)
    expected = np.array([brute_flows(circuit, row) for row in q]).T
    np.testing.assert_allclose(all_flows(circuit, q)[24:], expected, atol=1e-10)


@settings(deadline=None)
@given(random_circuits(), st.integers(0, 2**16))
def test_elements_of_a_gate_sum_to_what_leads_to_it(circuit: Circuit, seed: int) -> None:
    flow = all_flows(circuit, examples(circuit.n_variables, 3, seed))[circuit.n_literals :]
    for gate in range(circuit.n_or_gates):
        node = circuit.n_literals + gate
        above = flow[(circuit.elem_prime == node) | (circuit.elem_sub == node)].sum(axis=0)
        expected = np.ones(3) if gate == circuit.n_or_gates - 1 else above
        np.testing.assert_allclose(flow[circuit.elem_or == gate].sum(axis=0), expected, atol=1e-12)


@settings(deadline=None)
@given(random_circuits(), st.integers(0, 2**16))
def test_boolean_inputs_have_boolean_flows(circuit: Circuit, seed: int) -> None:
    q = np.random.default_rng(seed).integers(0, 2, (4, circuit.n_variables)).astype(float)
    assert set(np.unique(all_flows(circuit, q))) <= {0.0, 1.0}


@settings(deadline=None)
@given(random_circuits(most=5), st.integers(0, 2**16))
def test_fractional_inputs_give_the_multilinear_extension(circuit: Circuit, seed: int) -> None:
    q = examples(circuit.n_variables, 1, seed)
    worlds = (
        np.array(np.meshgrid(*[[0.0, 1.0]] * circuit.n_variables, indexing="ij")).reshape(circuit.n_variables, -1).T
    )
    extension = all_flows(circuit, worlds) @ world_probabilities(q[0])
    np.testing.assert_allclose(all_flows(circuit, q)[:, 0], extension, atol=1e-10)


def logits_bottom_up(
    plan: FlowPlan, literals: np.ndarray, element_weights: np.ndarray, literal_weights: np.ndarray | None = None
) -> np.ndarray:
    """The weight function of one class without flows, (n_examples,), for weights (n_elements,) and (2 n_variables,).

    Every node carries Pr and u = Pr g: u(element) = Pr(prime) u(sub) + u(prime) Pr(sub), u(or gate) = sum over its
    elements of u + weight Pr; the result is u(root) / Pr(root). [Proposition 3]
    """
    circuit = plan.circuit
    u = np.zeros((circuit.n_nodes, literals.shape[1]))
    if literal_weights is not None:
        u[: circuit.n_literals] = literals * literal_weights[:, None]
    if circuit.n_or_gates == 0:
        return np.asarray(u.sum(axis=0))
    probability = node_probabilities(plan, literals)
    for gate in range(circuit.n_or_gates):
        span = slice(circuit.or_start[gate], circuit.or_start[gate + 1])
        prime, sub, weight = circuit.elem_prime[span], circuit.elem_sub[span], element_weights[span, None]
        both = probability[prime] * u[sub] + u[prime] * probability[sub]
        u[circuit.n_literals + gate] = np.sum(both + weight * probability[prime] * probability[sub], axis=0)
    return np.asarray(u[-1] / probability[-1])


@settings(deadline=None)
@given(random_circuits(), st.integers(0, 2**16))
def test_both_semantics_agree(circuit: Circuit, seed: int) -> None:
    generator = np.random.default_rng(seed)
    q = examples(circuit.n_variables, 4, seed)
    elements, literals = generator.normal(size=circuit.n_elements), generator.normal(size=circuit.n_literals)
    plan = compile_plan(circuit, NUMPY)
    bottom_up = logits_bottom_up(plan, literal_rows(plan, q), elements, literals)
    np.testing.assert_allclose(bottom_up, np.concatenate([literals, elements]) @ all_flows(circuit, q), atol=1e-10)
    without = logits_bottom_up(plan, literal_rows(plan, q), elements)
    np.testing.assert_allclose(without, elements @ all_flows(circuit, q)[circuit.n_literals :], atol=1e-10)


def xor_circuit() -> Circuit:
    """X0 xor X1, with X2 free: Pr(root) = q0 (1 - q1) + (1 - q0) q1."""
    vtree = vtrees.balanced(3)
    return Circuit(
        vtree,
        np.array([vtree.left[vtree.root], vtree.root]),
        np.array([0, 2, 4]),
        np.array([0, 3, 6, 6]),
        np.array([4, 1, 2, 5]),
    )


def test_flows_are_conditioned_on_the_root() -> None:
    # q = (.5, .25, .1): Pr(root) = .375 + .125 = .5; of it .375 through (X0, not X1)
    flow = all_flows(xor_circuit(), np.array([[0.5, 0.25, 0.1]]))[:, 0]
    np.testing.assert_allclose(flow[6:], [0.75, 0.25, 0.1, 0.9], atol=1e-12)
    np.testing.assert_allclose(flow[:6], [0.75, 0.25, 0.1, 0.25, 0.75, 0.9], atol=1e-12)


def test_a_contradiction_is_named() -> None:
    circuit, q = xor_circuit(), np.array([[0.5, 0.25, 0.1], [1.0, 1.0, 0.3]])
    plan = compile_plan(circuit, NUMPY)
    with pytest.raises(ContradictionError, match="example 1 of the chunk"):
        flows(plan, literal_rows(plan, q))
    assert np.isfinite(flows(plan, literal_rows(plan, q[:1]))).all()


def test_float32_is_close_to_float64() -> None:
    circuit = grown(vtrees.grid(6, 6), seed=2, rounds=6, per_round=20)
    q = examples(36, 50, seed=3)
    low = all_flows(circuit, q.astype(np.float32))
    assert low.dtype == np.float32
    np.testing.assert_allclose(low, all_flows(circuit, q), atol=2e-6)


def test_no_implicit_conversion_to_the_host() -> None:
    for circuit in (grown(vtrees.grid(3, 3), seed=1, rounds=4), xor_circuit(), initial_circuit(vtrees.balanced(1))):
        q = np.random.default_rng(0).random((5, circuit.n_variables))
        strict = StrictBackend()
        np.testing.assert_allclose(all_flows(circuit, q, strict), all_flows(circuit, q), atol=1e-12)


@pytest.mark.gpu
@pytest.mark.skipif(not cuda_is_available(), reason="no CUDA device answers")
def test_cupy_equals_numpy() -> None:
    circuit = grown(vtrees.grid(6, 6), seed=2, rounds=6, per_round=20)
    q = examples(36, 50, seed=3)
    np.testing.assert_allclose(all_flows(circuit, q, CupyBackend()), all_flows(circuit, q), atol=1e-12)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 3)), "expected examples of 2 variables"),
        (np.zeros(2), "expected examples of 2 variables"),
        (np.array([[0.0, 0.5], [0.2, 1.5]]), "row 1, variable 1: 1.5 is no probability"),
        (np.array([[0.0, np.nan]]), "row 0, variable 1: nan is no probability"),
        (np.array([[-0.1, 0.5]]), "row 0, variable 0: -0.1 is no probability"),
    ],
)
def test_refuses_what_is_no_probability(values: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_probabilities(values, 2)
