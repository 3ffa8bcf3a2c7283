"""Files that earlier versions wrote load, predict and go on as they did then; see tests/files/v0.1/README.md."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcml.explain.conditions import conditions
from lcml.explain.contributions import contributions
from lcml.formats import load_model, save_model
from lcml.inputs.encoding import one_by_one
from tests.cli.commands import output
from tests.export.models import run_onnxruntime

FILES = Path(__file__).parents[1] / "files" / "v0.1"
GRAPHS = sorted(path.stem for path in FILES.glob("*.onnx"))


def expected(name: str) -> Any:
    with np.load(FILES / "expected.npz") as arrays:
        return arrays[name]


def test_every_profile_is_there() -> None:
    assert {"auto", "throughput", "latency", "portable", "flows"} <= {name.split("-")[1] for name in GRAPHS}


@pytest.mark.parametrize("name", ["flat", "boolean", "windows"])
def test_a_model_gives_the_numbers_it_gave(name: str, tmp_path: Path) -> None:
    model, x = load_model(FILES / f"{name}.lcml"), expected(f"{name}/x")
    encoded = expected(f"{name}/encoded")
    assert model.encoder.encode(x[: len(encoded)]).tobytes() == encoded.tobytes()
    np.testing.assert_allclose(model.logits(x, precision="float64"), expected(f"{name}/logits"), rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        model.predict_proba(x, precision="float64"), expected(f"{name}/probabilities"), rtol=0, atol=1e-11
    )
    save_model(model, tmp_path / "again.lcml")
    assert (tmp_path / "again.lcml").read_bytes() == (FILES / f"{name}.lcml").read_bytes()


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_gives_the_probabilities_it_gave(name: str) -> None:
    model = {"explain": "flat"}.get(name.split("-")[0], name.split("-")[0])
    found = run_onnxruntime(FILES / f"{name}.onnx", expected(f"{model}/x").astype(np.float32))
    np.testing.assert_allclose(found["probabilities"], expected(f"{name}/probabilities"), rtol=0, atol=1e-6)
    np.testing.assert_allclose(found["probabilities"], expected(f"{model}/probabilities"), rtol=0, atol=1e-6)


def test_explanations_are_those_of_then() -> None:
    model, x = load_model(FILES / "flat.lcml"), expected("flat/x")
    sidecar = json.loads((FILES / "explain-portable.explain.json").read_text())
    names = model.provenance["data"]["feature_names"]
    flows = model.parts[0].flows.tolist()
    texts = conditions(model.circuit, one_by_one(names), shown=16)  # as then, without the units
    assert [*(texts[flow] for flow in flows), "bias"] == sidecar["conditions"]
    codes = expected("flat/probabilities").argmax(axis=1)
    found = contributions(model, x)[np.arange(len(x)), codes]
    np.testing.assert_allclose(found, expected("explain-portable/contributions")[:, :-1], rtol=0, atol=1e-5)


def test_a_run_goes_on_from_its_checkpoint_to_the_same_model(tmp_path: Path) -> None:
    """The checkpoint is of round 2; the best model, of round 3, is the one of the run that was never interrupted."""
    shutil.copy(FILES / "half.checkpoint", tmp_path / "half.checkpoint")
    output("train", "--resume", tmp_path / "half.checkpoint", "--rounds", 5, "-o", tmp_path / "resumed.lcml")
    found, whole = load_model(tmp_path / "resumed.lcml"), load_model(FILES / "whole.lcml")
    assert found.provenance["training"]["best_round"] == whole.provenance["training"]["best_round"] == 3
    for name in ("or_start", "elem_prime", "elem_sub"):
        assert getattr(found.circuit, name).tolist() == getattr(whole.circuit, name).tolist()
    np.testing.assert_allclose(found.weights, whole.weights, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.bias, whole.bias, rtol=0, atol=1e-6)
