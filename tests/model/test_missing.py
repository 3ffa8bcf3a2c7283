"""Predictions without some inputs, against sums over all worlds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml import LogisticCircuitClassifier
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit
from lcml.errors import CircuitError, DataError, FormatError, SettingsError
from lcml.explain.contributions import contributions
from lcml.formats import load_model, save_model
from lcml.formats.model_file import model_from_parts, model_parts
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.missing import MissingPolicy
from lcml.model.model import LogisticCircuit
from tests.worlds import all_worlds, grown, random_circuits, world_probabilities

Floats = NDArray[np.float64]
POLICIES: list[MissingPolicy] = ["prior", "expected"]


def model_of(circuit: Circuit, seed: int) -> LogisticCircuit:
    generator, n = np.random.default_rng(seed), circuit.n_variables
    weights = generator.normal(size=(2, circuit.n_literals + circuit.n_elements))
    literal, element = np.split(weights, [circuit.n_literals], axis=1)
    encoder = ScaleEncoder(np.zeros(n), np.full(n, 2.0))
    return LogisticCircuit.flat(circuit, encoder, (0, 1), element, literal, generator.normal(size=2), "softmax")


def with_gaps(circuit: Circuit, seed: int) -> tuple[Floats, Floats]:
    """Raw training examples (30, n), and 4 of 0 and 2 of which some values are missing."""
    generator = np.random.default_rng(seed)
    train = 2 * (generator.random((30, circuit.n_variables)) < generator.random(circuit.n_variables))
    asked = 2.0 * generator.integers(0, 2, (4, circuit.n_variables))
    return train.astype(np.float64), np.where(generator.random(asked.shape) < 0.5, np.nan, asked)


@settings(max_examples=25, deadline=None)
@given(random_circuits(most=5), st.integers(0, 2**16))
def test_expected_logits_of_all_worlds(circuit: Circuit, seed: int) -> None:
    """`prior`: each missing variable true with its share in training. `expected`: worlds by the distribution."""
    model, worlds = model_of(circuit, seed), all_worlds(circuit.n_variables)
    train, asked = with_gaps(circuit, seed)
    logits = model.logits(2 * worlds, precision="float64")
    prior = model.with_missing("prior", train).logits(asked, precision="float64")
    expected_model = model.with_missing("expected", train)
    expected = expected_model.logits(asked, precision="float64")
    assert expected_model.missing is not None
    assert expected_model.missing.distribution is not None
    joint = np.exp(expected_model.missing.distribution.log_likelihood(worlds))
    for i, row in enumerate(asked / 2):
        independent = world_probabilities(np.where(np.isnan(row), train.mean(axis=0) / 2, row))
        possible = joint * np.all(np.isnan(row) | (worlds == row), axis=1)
        assert prior[i] == pytest.approx(independent @ logits, abs=1e-6)
        assert expected[i] == pytest.approx(possible @ logits / possible.sum(), abs=1e-6)
    told = contributions(expected_model, asked).sum(axis=2) + model.bias
    assert told == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_whole_rows_are_predicted_as_before_and_beside_others(policy: MissingPolicy) -> None:
    circuit = grown(vtrees.balanced(5), 1, 2)
    model, (train, asked) = model_of(circuit, 1), with_gaps(circuit, 1)
    whole = np.random.default_rng(0).random((3, 5)) * 2
    found = model.with_missing(policy, train).logits(np.concatenate([asked, whole]))
    assert np.array_equal(found[4:], model.logits(whole))
    assert np.isfinite(found).all()
    with pytest.raises(DataError, match="must be finite"):
        model.logits(asked)
    with pytest.raises(DataError, match="is inf"):
        model.with_missing(policy, train).logits(np.full((1, 5), np.inf))


@pytest.mark.parametrize("policy", POLICIES)
def test_the_model_file_keeps_the_policy(policy: MissingPolicy, tmp_path: Path) -> None:
    circuit = grown(vtrees.balanced(4), 2, 1)
    train, asked = with_gaps(circuit, 2)
    model = model_of(circuit, 2).with_missing(policy, train)
    save_model(model, tmp_path / "m.lcml")
    loaded = load_model(tmp_path / "m.lcml")
    assert loaded.missing is not None
    assert loaded.missing.policy == policy
    assert np.array_equal(loaded.logits(asked), model.logits(asked))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"content": {"missing": "guess"}}, "policy for missing inputs, found 'guess'"),
        ({"missing/means": None}, "'missing/means' is missing"),
        ({"missing/means": np.full(4, 2.0)}, "one probability per variable"),
        ({"missing/means": np.zeros(3)}, "makes 4 inputs, missing has 3"),
        ({"missing/log_parameters": np.zeros(2)}, "log parameters"),
        ({"content": {"missing": "refuse"}}, "is unknown"),
    ],
)
def test_refuses_files_whose_policy_is_none(change: dict[str, Any], message: str) -> None:
    circuit = grown(vtrees.balanced(4), 2, 1)
    content, arrays = model_parts(model_of(circuit, 2).with_missing("expected", with_gaps(circuit, 2)[0]))
    content |= change.pop("content", {})
    arrays = {name: array for name, array in (arrays | change).items() if array is not None}
    with pytest.raises((FormatError, CircuitError), match=message):
        model_from_parts(content, arrays)


def test_refuses_policies_that_are_not_defined() -> None:
    circuit = grown(vtrees.balanced(4), 2, 1)
    model, (train, asked) = model_of(circuit, 2), with_gaps(circuit, 2)
    with pytest.raises(DataError, match="must be finite"):
        model.with_missing("prior", asked)
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(4), np.ones(4)), (2, 2), ("grey",))
    of_channels = LogisticCircuit(encoder, model.parts, model.classes, model.weights, model.bias, model.link)
    with pytest.raises(SettingsError, match="not defined for channels"):
        of_channels.with_missing("prior", train)


def test_a_model_without_weights_expects_its_bias() -> None:
    circuit = grown(vtrees.balanced(4), 2, 1)
    model = model_of(circuit, 2)
    model = LogisticCircuit.flat(
        circuit, model.encoder, (0, 1), np.zeros((2, circuit.n_elements)), None, model.bias, "softmax"
    )
    train, asked = with_gaps(circuit, 2)
    assert np.all(model.with_missing("expected", train).logits(asked) == model.bias)


def test_the_classifier_takes_gaps_by_its_policy() -> None:
    """XOR of two inputs: the third one may be missing; without both the logit is its mean over the four worlds."""
    generator = np.random.default_rng(0)
    x = generator.integers(0, 2, (200, 3)).astype(float)
    y = (x[:, 0] != x[:, 1]).astype(int)
    options: dict[str, Any] = {"rounds": 2, "l2_path": (1e-3,), "minimum_support": 1.0}
    model = LogisticCircuitClassifier(missing="expected", **options).fit(x, y)
    assert model.score(x, y) == 1
    assert model.score(np.where([False, False, True], np.nan, x), y) == 1
    worlds = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1]], float)
    assert model.model_.missing is not None
    assert model.model_.missing.distribution is not None
    likely = np.exp(model.model_.missing.distribution.log_likelihood(worlds))
    expected = np.average(model.decision_function(worlds), weights=likely)
    assert model.decision_function([[np.nan, np.nan, 1.0]])[0] == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="NaN"):
        LogisticCircuitClassifier(**options).fit(x, y).predict([[np.nan, 0, 0]])
    with pytest.raises(SettingsError, match="expected is for one circuit"):
        LogisticCircuitClassifier(missing="expected", view=["window=2x1"], image_shape=(3, 1), **options).fit(x, y)
