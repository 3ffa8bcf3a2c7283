"""Probabilistic circuits against sums over all worlds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.errors import CircuitError, ContradictionError, DataError
from lcml.model.distribution import ProbabilisticCircuit
from tests.circuits.test_paper import FIGURE_5, figure_circuit, with_t
from tests.worlds import all_worlds, brute_flows, examples, grown, random_circuits

Floats = NDArray[np.float64]
SOME = settings(max_examples=25, deadline=None)


def flows_of_worlds(circuit: Circuit) -> Floats:
    """(2^n, n_elements) by the plain definition, NaN for a world that the circuit excludes."""
    return np.array([brute_flows(circuit, world) for world in all_worlds(circuit.n_variables)])


def drawn(circuit: Circuit, seed: int) -> ProbabilisticCircuit:
    """Random parameters, some of them 0 where a gate has others."""
    generator = np.random.default_rng(seed)
    starts = circuit.or_start if circuit.n_or_gates else np.array([0, 2])
    theta = generator.random(starts[-1]) * (generator.random(starts[-1]) < 0.9) + 1e-3
    theta /= np.repeat(np.add.reduceat(theta, starts[:-1]), np.diff(starts))
    return ProbabilisticCircuit(circuit, np.log(theta))


def joint(distribution: ProbabilisticCircuit) -> Floats:
    """(2^n,) the product of the parameters that prove each world."""
    circuit = distribution.circuit
    if not circuit.n_or_gates:
        return np.exp(distribution.log_parameters[::-1])
    return np.exp(flows_of_worlds(circuit) @ distribution.log_parameters)


def evidence_of(circuit: Circuit, seed: int) -> Floats:
    """One example: hard, soft and missing values."""
    generator = np.random.default_rng(seed)
    q = examples(circuit.n_variables, 1, seed)
    return np.where(generator.random(q.shape) < 0.4, np.nan, q)


def likelihood(evidence: Floats) -> Floats:
    """(2^n,) of every world: the product of q or 1 - q over what is not missing."""
    worlds = all_worlds(len(evidence))
    factors = np.where(np.isnan(evidence), 1, np.where(worlds == 1, evidence, 1 - evidence))
    return np.asarray(factors.prod(axis=1))


@SOME
@given(random_circuits(most=5), st.integers(0, 2**16))
def test_answers_of_all_worlds(circuit: Circuit, seed: int) -> None:
    """Likelihood, marginals and the most probable world under evidence of every kind."""
    distribution, evidence = drawn(circuit, seed), evidence_of(circuit, seed)
    weighted = joint(distribution) * likelihood(evidence[0])
    worlds = all_worlds(circuit.n_variables)
    assert joint(distribution).sum() == pytest.approx(1)
    assert distribution.log_likelihood(worlds) == pytest.approx(np.log(joint(distribution)))
    assert distribution.log_likelihood(evidence) == pytest.approx(np.log(weighted.sum()))
    assert distribution.marginals(evidence)[0] == pytest.approx(weighted @ worlds / weighted.sum(), abs=1e-12)
    best = distribution.mpe(evidence)[0]
    (place,) = np.flatnonzero((worlds == best).all(axis=1))
    assert weighted[place] == pytest.approx(weighted.max())


@SOME
@given(random_circuits(most=5), st.integers(0, 2**16))
def test_expected_flows_of_known_and_missing_values(circuit: Circuit, seed: int) -> None:
    distribution, evidence = drawn(circuit, seed), np.round(evidence_of(circuit, seed))
    worlds = all_worlds(circuit.n_variables)
    shares = joint(distribution) * likelihood(evidence[0])
    shares /= shares.sum()
    expected = shares @ np.hstack([worlds, 1 - worlds, flows_of_worlds(circuit)])
    assert distribution.expected_flows(evidence)[0] == pytest.approx(expected, abs=1e-12)


@SOME
@given(random_circuits(most=5), st.integers(0, 2**16))
def test_expected_flows_without_a_gap_are_the_flows(circuit: Circuit, seed: int) -> None:
    q = examples(circuit.n_variables, 3, seed)
    elements = np.array([brute_flows(circuit, row) for row in q])
    found = drawn(circuit, seed).expected_flows(q)
    assert found == pytest.approx(np.hstack([q, 1 - q, elements]), abs=1e-12)


def test_one_soft_value_keeps_its_probability() -> None:
    """With all else missing, evidence of q leaves Pr(X_v | evidence) = q whatever it was."""
    distribution = drawn(grown(vtrees.balanced(4), 3, 2), 5)
    for v in range(4):
        given = np.full((1, 4), np.nan)
        given[0, v] = 0.3
        flows = distribution.expected_flows(given)[0]
        assert (flows[v], flows[4 + v]) == (pytest.approx(0.3), pytest.approx(0.7))


@SOME
@given(random_circuits(most=4), st.integers(0, 2**16))
def test_closed_form_parameters_are_the_most_likely(circuit: Circuit, seed: int) -> None:
    """No nearby distribution makes the examples more likely, and Laplace's rule adds one to every count."""
    generator = np.random.default_rng(seed)
    worlds = generator.integers(0, 2, (20, circuit.n_variables)).astype(np.float64)
    weights = generator.random(20)
    fitted = ProbabilisticCircuit.fit(circuit, worlds, weights, smoothing=0)
    best = weights @ fitted.log_likelihood(worlds)
    for nearby in range(5):
        mixed = 0.9 * np.exp(fitted.log_parameters) + 0.1 * np.exp(drawn(circuit, nearby).log_parameters)
        other = ProbabilisticCircuit(circuit, np.log(mixed))
        assert weights @ other.log_likelihood(worlds) <= best + 1e-9
    rows = np.array([brute_flows(circuit, world) for world in worlds]) if circuit.n_or_gates else None
    counts = np.array([worlds.sum(), (1 - worlds).sum()]) if rows is None else rows.sum(axis=0)
    gate = circuit.elem_or if circuit.n_or_gates else np.zeros(2, int)
    smoothed = (counts + 1) / np.bincount(gate, counts + 1)[gate]
    assert np.exp(ProbabilisticCircuit.fit(circuit, worlds).log_parameters) == pytest.approx(smoothed)


def test_samples_follow_the_distribution_given_evidence() -> None:
    distribution = drawn(grown(vtrees.balanced(4), 1, 2), 2)
    given = np.array([np.nan, 1.0, np.nan, np.nan])
    worlds = distribution.sample(20_000, 0, given)
    expected = joint(distribution) * likelihood(given)
    counts = np.bincount((worlds @ [8, 4, 2, 1]).astype(int), minlength=16)
    assert counts / 20_000 == pytest.approx(expected / expected.sum(), abs=0.015)  # four standard errors
    assert np.array_equal(worlds[:5], distribution.sample(20_000, 0, given)[:5])


def test_figure_5_of_the_paper() -> None:
    """A=1, B=1, C=1, D=0 by hand; and worlds in the proportions of Pr(. | Y) give its parameters back."""
    theta = [with_y for wires in FIGURE_5.values() for with_y, _ in wires]
    distribution = ProbabilisticCircuit(figure_circuit(), np.log(theta))
    assert distribution.log_likelihood(with_t([(1, 1, 1, 0)]))[0] == pytest.approx(np.log(0.9 * 0.8 * 0.8 * 0.3))
    worlds = with_t(all_worlds(4))
    shares = np.exp(distribution.log_likelihood(worlds))
    assert shares.sum() == pytest.approx(1)
    found = ProbabilisticCircuit.fit(figure_circuit(), worlds, shares, smoothing=0)
    assert np.exp(found.log_parameters) == pytest.approx(theta)


def test_refuses_what_is_no_distribution_and_no_evidence() -> None:
    circuit = initial_circuit(vtrees.balanced(2))
    with pytest.raises(CircuitError, match="expected 4 log parameters"):
        ProbabilisticCircuit(circuit, np.zeros(3))
    with pytest.raises(CircuitError, match="or gate 0 sum to 4"):
        ProbabilisticCircuit(circuit, np.zeros(4))
    with np.errstate(divide="ignore"):
        certain = ProbabilisticCircuit(circuit, np.log([1.0, 0, 0, 0]))
    with pytest.raises(DataError, match="expected examples of 2 variables"):
        certain.marginals(np.zeros((1, 3)))
    with pytest.raises(DataError, match=r"row 0, variable 1: 2.0 is no probability"):
        certain.marginals([[0.0, 2.0]])
    with pytest.raises(ContradictionError, match="example 0"):
        certain.mpe([[0.0, np.nan]])
    assert certain.log_likelihood([[0.0, 0.0], [1.0, 1.0]]).tolist() == [-np.inf, 0]
    with pytest.raises(DataError, match=r"found an array of shape \(2, 1, 2\)"):
        certain.sample(2, 0, [[1.0, np.nan]])
    for rows, options, message in (
        ([[np.nan, 0.0]], {}, "row 0, variable 0: nan is no probability"),
        ([[1.0, 0.0]], {"smoothing": -1.0}, "smoothing -1.0"),
        ([[1.0, 0.0]], {"weights": [1.0, 1.0]}, "expected 1 weights"),
    ):
        with pytest.raises(DataError, match=message):
            ProbabilisticCircuit.fit(circuit, rows, **options)
