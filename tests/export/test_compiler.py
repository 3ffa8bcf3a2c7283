"""The symbolic compiler: circuit -> polynomials -> terms -> layers, exact in double precision."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcml.backend import NumpyBackend
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.errors import CircuitError
from lcml.model.model import LogisticCircuit
from lcml.passes.flows import flows, literal_rows
from lcml.passes.plan import compile_plan
from lcml_export import terms as terms_module
from lcml_export.compiled import compile_model
from lcml_export.factoring import factor
from lcml_export.program import Program
from lcml_export.reduction import TermSum, flows_as_terms, merged, reduce_flows
from lcml_export.terms import Polynomial, decided_literals, gate_flows, simplify, times
from tests.export.models import evaluate, model_on, small_models, thinned, wide_circuit, xor_circuit
from tests.worlds import brute_flows, examples, grown, random_circuits


def with_bias(model: LogisticCircuit) -> TermSum:
    term_sum = reduce_flows(model.circuit, model.flat_weights)
    return dataclasses.replace(term_sum, bias=term_sum.bias + model.bias)


def program_of(model: LogisticCircuit) -> Program:
    return factor(with_bias(model))


def value(polynomial: Polynomial, literals: Any) -> Any:
    return sum(coefficient * literals[sorted(term)].prod(axis=0) for term, coefficient in polynomial.items())


@given(random_circuits(5), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_polynomials_are_the_flows_of_brute_force(circuit: Circuit, seed: int) -> None:
    q = examples(circuit.n_variables, 1, seed)[0]
    literals = np.concatenate([q, 1 - q])
    decided = decided_literals(circuit)
    gates = gate_flows(circuit, decided)
    found = [value(gates[g], literals) * literals[sorted(decided[e])].prod() for e, g in enumerate(circuit.elem_or)]
    expected = brute_flows(circuit, q) if circuit.n_or_gates else np.array([])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_polynomials_of_a_wide_circuit_are_its_flows() -> None:
    circuit = wide_circuit()
    literals = literal_rows(compile_plan(circuit, NumpyBackend()), examples(circuit.n_variables, 20, 0))
    decided = decided_literals(circuit)
    gates = gate_flows(circuit, decided)
    assert max(map(len, gates)) > 2
    found = [
        value(gates[g], literals) * literals[sorted(decided[e])].prod(axis=0) for e, g in enumerate(circuit.elem_or)
    ]
    expected = flows(compile_plan(circuit, NumpyBackend()), literals)[circuit.n_literals :]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@given(random_circuits(5), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_flows_of_which_roots_are_taken_are_sums_without_cancellation(circuit: Circuit, seed: int) -> None:
    q = examples(circuit.n_variables, 1, seed)[0]
    term_sum = flows_as_terms(circuit, np.arange(circuit.n_literals + circuit.n_elements))
    assert term_sum.weights.min() >= 0
    literals = np.concatenate([q, 1 - q])
    elements = brute_flows(circuit, q) if circuit.n_or_gates else np.array([])
    found = evaluate(factor(term_sum), q[None, :])[0]
    np.testing.assert_allclose(found, np.concatenate([literals, elements]), rtol=0, atol=1e-12)


def test_sums_of_terms_are_added_term_by_term() -> None:
    # a + 2 ab + 3, and 4 ab - a: 6 ab + 3, as a's weights cancel.
    a, ab = frozenset((0,)), frozenset((0, 1))
    first = TermSum(2, [a, ab], np.array([[1.0, 2.0]]), np.array([3.0]))
    second = TermSum(2, [ab, a], np.array([[4.0, -1.0]]), np.array([0.0]))
    total = merged([first, second])
    assert (total.terms, total.weights.tolist(), total.bias.tolist()) == ([ab], [[6.0]], [3.0])


def test_simplify_by_hand() -> None:
    # Over a, b (ids 0, 1; negations 2, 3): ab + a not-b = a; a - ab = a not-b; and both in turn.
    a, b, not_b = (frozenset(ids) for ids in ((0,), (0, 1), (0, 3)))
    assert simplify({b: 1, not_b: 1}, 2) == {a: 1}
    assert simplify({a: 1, b: -1}, 2) == {not_b: 1}
    assert simplify({a: 2, b: -2, not_b: -2}, 2) == {}
    assert simplify({frozenset((0,)): 1, frozenset((2, 1)): 1, frozenset((2, 3)): 1}, 2) == {frozenset(): 1}


POSSIBLE_TERMS = st.frozensets(st.integers(0, 7), max_size=3).filter(
    lambda term: len({x % 4 for x in term}) == len(term)
)


@given(st.dictionaries(POSSIBLE_TERMS, st.integers(-2, 2), max_size=8))
def test_simplify_keeps_the_value_in_every_world(polynomial: Polynomial) -> None:
    shorter = simplify(polynomial, 4)
    assert len(shorter) <= len(polynomial)
    for world in itertools.product((0, 1), repeat=4):
        literals = np.array([*world, *(1 - v for v in world)])
        assert value(shorter, literals) == value(polynomial, literals)


@given(small_models(), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_program_is_the_model_exactly(model: Any, seed: int) -> None:
    x = np.random.default_rng(seed).normal(scale=2, size=(9, model.encoder.n_features))
    program = program_of(model)
    assert_well_formed(program)
    logits = evaluate(program, model.encoder.encode(x).astype(np.float64))
    np.testing.assert_allclose(logits, model.logits(x, precision="float64"), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_program_is_exact_on_densely_split_circuits(seed: int) -> None:
    # Here complements make polynomials whose terms mention variables that elements below decide.
    model = model_on(grown(vtrees.balanced(24), seed, rounds=10, per_round=12))
    x = examples(24, 20, seed)
    logits = evaluate(program_of(model), model.encoder.encode(x).astype(np.float64))
    np.testing.assert_allclose(logits, model.logits(x, precision="float64"), rtol=0, atol=1e-11)


def test_times_by_hand() -> None:
    # Over a, b: (1 + a - not-b) where a and b hold is a b + a b.
    polynomial = {frozenset(): 1, frozenset((0,)): 1, frozenset((3,)): -1}
    assert times(polynomial, frozenset((0, 1)), 2) == {frozenset((0, 1)): 2}
    assert times({frozenset(): 1, frozenset((0,)): -1}, frozenset((0,)), 2) == {}


@pytest.mark.parametrize("most_factors", [None, 1, 2, 3])
@pytest.mark.parametrize(("table_depth", "min_shared"), [(0, 1), (1, 2), (2, 3), (3, 1)])
def test_program_is_exact_however_it_is_factored(table_depth: int, min_shared: int, most_factors: int | None) -> None:
    model = model_on(wide_circuit())
    x = examples(model.encoder.n_features, 50, 1)
    program = factor(with_bias(model), table_depth, min_shared, most_factors)
    assert_well_formed(program)
    if most_factors is None:
        assert len(program.table) <= table_depth
    else:
        assert len(program.chain) <= most_factors - 1
    logits = evaluate(program, model.encoder.encode(x).astype(np.float64))
    np.testing.assert_allclose(logits, model.logits(x, precision="float64"), rtol=0, atol=1e-11)


def test_one_feature_per_element_but_one_of_every_gate() -> None:
    # Four elements x y, x not-y, not-x y, not-x not-y under one gate: three features and the bias span them.
    model = model_on(initial_circuit(vtrees.balanced(2)))
    assert len(with_bias(model).terms) == 3


def test_weights_of_zero_leave_one_term_of_weight_zero() -> None:
    circuit = initial_circuit(vtrees.balanced(3))
    term_sum = reduce_flows(circuit, np.zeros((3, circuit.n_literals + circuit.n_elements)))
    assert (len(term_sum.terms), np.abs(term_sum.weights).max()) == (1, 0)
    np.testing.assert_array_equal(evaluate(factor(term_sum), np.ones((2, 3))), np.zeros((2, 3)))


def test_long_terms_are_multiplied_in_pairs() -> None:
    # abcdef and abcdeg of at most three factors, nothing shared first: ab, cd and ef or eg are multiplied, ab and cd
    # once; of the chain abcd is shared, and either term is it times the last one.
    term_sum = TermSum(7, [frozenset((0, 1, 2, 3, 4, last)) for last in (5, 6)], np.ones((1, 2)), np.zeros(1))
    program = factor(term_sum, 0, 1, 3)
    assert ([len(layer) for layer in program.table], [len(layer) for layer in program.chain]) == ([4], [1, 2])
    x = np.array([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1, 1]], dtype=float)
    assert evaluate(program, x).tolist() == [[1], [2], [0]]


def test_shared_products_are_computed_once() -> None:
    # abcd, abce, abcf: ab, then abc, then one product each.
    term_sum = TermSum(6, [frozenset((0, 1, 2, last)) for last in (3, 4, 5)], np.ones((1, 3)), np.zeros(1))
    assert factor(term_sum).n_products == 5


@pytest.mark.parametrize("circuit", [xor_circuit(), thinned(wide_circuit(8), 0)], ids=["not products", "Pr(root) < 1"])
def test_circuits_of_other_kinds_are_refused(circuit: Circuit) -> None:
    with pytest.raises(CircuitError, match="profile 'flows'"):
        compile_model(model_on(circuit), passes=False)


def test_flows_that_get_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms_module, "MAX_TERMS_PER_ELEMENT", 0)
    with pytest.raises(CircuitError, match="profile 'flows'"):
        compile_model(model_on(wide_circuit()), passes=False)


def assert_well_formed(program: Program) -> None:
    """The layers read what `Program` says they may, and no layer computes a product twice."""
    first, n_rows = 0, 2 * program.n_variables
    for layer in program.table:
        assert layer.left.min() >= first
        assert max(layer.left.max(), layer.right.max()) < n_rows
        assert np.all(np.diff(layer.right) >= 0)
        first, n_rows = n_rows, n_rows + len(layer)
    before = n_rows
    for layer in program.chain:
        assert layer.left.max() < before
        assert layer.right.max() < n_rows
        assert len({(a, b) for a, b in zip(layer.left, layer.right, strict=True)}) == len(layer)
        before = len(layer)
    for n_used, following in zip(program.n_used, program.chain[1:], strict=False):
        assert set(following.left) == set(range(n_used))
