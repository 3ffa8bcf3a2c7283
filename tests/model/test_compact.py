"""Compaction keeps the function and drops one weight per or gate and every literal's."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.formats import read_circuit, read_vtree
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.compact import compact, without_zeros
from lcml.model.model import LogisticCircuit
from tests.export.models import model_on, small_models, thinned, wide_circuit, xor_circuit


@given(small_models(), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_the_function_stays(model: LogisticCircuit, seed: int) -> None:
    x = np.random.default_rng(seed).normal(scale=2, size=(9, model.encoder.n_features))
    expected = model.logits(x, precision="float64")
    np.testing.assert_allclose(compact(model).logits(x, precision="float64"), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("circuit", [xor_circuit(), thinned(wide_circuit(8), 0), wide_circuit()])
def test_the_function_stays_on_circuits_of_any_kind(circuit: Circuit) -> None:
    model = model_on(circuit)
    x = np.random.default_rng(0).uniform(0.1, 0.9, (20, model.encoder.n_features))
    expected = model.logits(x, precision="float64")
    np.testing.assert_allclose(compact(model).logits(x, precision="float64"), expected, rtol=0, atol=1e-11)


def test_by_hand() -> None:
    # Elements xy, x not-y, not-x y, not-x not-y weigh 1, 2, 3, 4, literals x, y, not-x, not-y 10, 20, 30, 40: with the
    # literals' pushed up 31, 52, 53, 74; the last one pushed to the bias -43, -22, -21, 0 and 74 + 5.
    circuit = initial_circuit(vtrees.balanced(2))
    encoder = ScaleEncoder(np.zeros(2), np.ones(2))
    element_weights, literal_weights = np.array([[1.0, 2, 3, 4]]), np.array([[10.0, 20, 30, 40]])
    small = compact(LogisticCircuit.flat(circuit, encoder, (0, 1), element_weights, literal_weights, np.array([5.0])))
    assert small.element_weights.tolist() == [[-43, -22, -21, 0]]
    assert small.literal_weights is None
    assert small.bias.tolist() == [79]
    assert small.n_parameters == 4


def test_a_part_of_few_weights_stays() -> None:
    """One weight, of a literal: pushed to the elements there would be two."""
    circuit, encoder = initial_circuit(vtrees.balanced(2)), ScaleEncoder(np.zeros(2), np.ones(2))
    literal_weights = np.array([[10.0, 0, 0, 0]])
    model = without_zeros(
        LogisticCircuit.flat(circuit, encoder, (0, 1), np.zeros((1, 4)), literal_weights, np.zeros(1))
    )
    assert (model.n_parameters, compact(model).n_parameters) == (2, 2)


def test_counts() -> None:
    model = model_on(wide_circuit())
    circuit = model.circuit
    assert model.n_parameters == 3 * (circuit.n_literals + circuit.n_elements + 1)
    assert compact(model).n_parameters == 3 * (circuit.n_elements - circuit.n_or_gates + 1)
    assert compact(compact(model)).n_parameters == compact(model).n_parameters


@pytest.mark.data
def test_the_authors_circuit(data_dir: Path) -> None:
    vtree = read_vtree(data_dir / "ucla" / "balanced.vtree")
    model = read_circuit(data_dir / "ucla" / "mnist.circuit", vtree, scale=255.0)
    small = compact(model)
    assert (model.n_parameters, small.n_parameters) == (163_870, 64_670)
    x = np.random.default_rng(0).integers(0, 256, (20, 784))
    expected = model.logits(x, precision="float64")
    np.testing.assert_allclose(small.logits(x, precision="float64"), expected, rtol=0, atol=1e-12)
