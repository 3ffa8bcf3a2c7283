"""`lcml bench`: what it prints, and what is measured."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lcml import LogisticCircuit, save_model
from lcml.circuits import vtree
from lcml.circuits.parts import Part
from lcml.circuits.views import WindowView
from lcml.cli import app
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml.passes.feature_map import FeatureMap
from lcml.runs.reproduce.benchmark import available_backends, element_evaluations, interleaved, random_inputs

from ..worlds import grown

RATIOS = (
    "features_to_numpy",
    "features_to_scipy_sparse",
    "predictions_to_numpy",
    "predictions_to_scipy_sparse",
)


@pytest.fixture
def model() -> LogisticCircuit:
    circuit = grown(vtree.grid(2, 2), seed=1, rounds=3)
    return LogisticCircuit.flat(
        circuit,
        ScaleEncoder(np.zeros(4), np.array([1.0, 2.0, 3.0, 4.0])),
        (0, 1, 2),
        np.random.default_rng(0).normal(size=(3, circuit.n_elements)),
        None,
        np.zeros(3),
    )


def test_json(model: LogisticCircuit, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m.lcml")
    rows = "\n".join(f"{i / 9},{i / 8},{i / 7},{i / 6}" for i in range(7))
    (tmp_path / "rows.csv").write_text("a,b,c,d\n" + rows + "\n")
    arguments = ["bench", str(tmp_path / "m.lcml"), str(tmp_path / "rows.csv"), "--json", "--rounds", "1"]
    result = CliRunner().invoke(app, [*arguments, "--batch-size", "1", "--batch-size", "9"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["n_elements"] == found["n_element_evaluations"] == model.n_elements
    assert {"numpy", "scipy-sparse"} <= set(found["devices"])
    assert [(s["batch_size"], s["backend"]) for s in found["speeds"]] == [
        (size, name) for size in (1, 9) for name in found["devices"]
    ]
    for speed in found["speeds"]:
        assert all(speed[ratio] > 0 for ratio in RATIOS)
        assert speed["element_evaluations_per_second"] == speed["features_per_second"] * model.n_elements
        if speed["backend"] == "numpy":
            assert speed["features_to_numpy"] == speed["predictions_to_numpy"] == 1


def test_table_of_random_inputs(model: LogisticCircuit, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m.lcml")
    result = CliRunner().invoke(app, ["bench", str(tmp_path / "m.lcml"), "--rounds", "1", "--batch-size", "4"])
    assert result.exit_code == 0, result.output
    assert "random inputs" in result.stdout
    assert "scipy-sparse" in result.stdout


def test_unknown_model(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", str(tmp_path / "none.lcml")])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "none.lcml" in result.stderr


def test_random_inputs_reach_the_encoders_range() -> None:
    scale = ScaleEncoder(np.array([0.0, -3.0]), np.array([255.0, -1.0]))
    found = random_inputs(scale, 1000, seed=0)
    np.testing.assert_allclose(found.min(axis=0), [0, -3], atol=2)
    np.testing.assert_allclose(found.max(axis=0), [255, -1], atol=2)
    np.testing.assert_array_equal(found, random_inputs(scale, 1000, seed=0))
    boolean = BooleanEncoder(np.array([10.0]))
    assert set(boolean.encode(random_inputs(boolean, 50, seed=1)).ravel()) == {0, 1}


def test_all_contestants_compute_the_same(model: LogisticCircuit) -> None:
    circuit = model.circuit
    q = np.random.default_rng(0).random((40, 4)).astype(np.float32)
    backends = available_backends()
    wanted = np.arange(circuit.n_literals + circuit.n_elements)
    first, *others = (
        backend.to_host(FeatureMap(model.parts[0].view, circuit, wanted, backend).values(backend.asarray(q)))
        for backend in backends
    )
    for other in others:
        np.testing.assert_allclose(other, first, atol=1e-6)


def test_element_evaluations_count_positions() -> None:
    view = WindowView((1, 3, 3), (2, 2))
    circuit = grown(vtree.grid(2, 2), seed=1, rounds=1)
    part = Part.full(view, circuit)
    encoder = ScaleEncoder(np.zeros(9), np.ones(9))
    model = LogisticCircuit(encoder, (part,), (0, 1), np.zeros((1, part.n_features)), np.zeros(1))
    assert element_evaluations(model) == 4 * circuit.n_elements


def test_contestants_take_turns() -> None:
    calls: list[str] = []
    times = interleaved({name: partial(calls.append, name) for name in "ab"}, rounds=2, seconds=0)
    assert "".join(calls) == "ab" + "abab"
    assert set(times) == {"a", "b"}
