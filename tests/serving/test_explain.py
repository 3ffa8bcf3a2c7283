"""Explanations: the contributions worked out in onnx_models, by the service and by the function alone."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcml_serving.explain import explain_rows
from lcml_serving.models import load_model
from lcml_serving.signature import Array
from tests.serving.onnx_models import X, write_model
from tests.serving.running import Running, infer_body

EXPLAIN = "/v2/models/plain/explain"


def test_contributions_are_named_and_sum_to_the_logit(service: Running) -> None:
    answer = service.post(EXPLAIN, infer_body(X, id="why")).json()
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("plain", "3", "why")
    a, b, c, d = (
        {"index": index, "condition": condition, "contribution": value}
        for index, condition, value in [(0, "a", 1.0), (1, "b and not a", 1.0), (2, "c", 1.0), (3, "d", 2.0)]
    )
    assert answer["explanations"] == [
        {"label": 10, "logit": 2.0, "bias": 0.0, "rest": 0.0, "contributions": [a, c]},
        {"label": 30, "logit": 1.0, "bias": -1.0, "rest": 0.0, "contributions": [d]},
        {"label": 20, "logit": 1.5, "bias": 0.5, "rest": 0.0, "contributions": [b]},
    ]


def test_top_k_leaves_a_rest(service: Running) -> None:
    body = infer_body([[1.0, 0.0, 8.0, 0.0]], parameters={"top_k": 1})
    (explanation,) = service.post("/v2/models/plain/versions/3/explain", body).json()["explanations"]
    assert [entry["condition"] for entry in explanation["contributions"]] == ["c"]
    assert (explanation["logit"], explanation["rest"], explanation["bias"]) == (5.0, 1.0, 0.0)


def test_the_largest_magnitudes_come_first_and_ties_in_order() -> None:
    contributions = np.array([[0.5, -3.0, 0.0, 0.5, 2.0, 1.0]])
    (row,) = explain_rows(["p", "q", "r", "s", "t", "bias"], np.array(["yes"]), contributions, 4)
    assert [entry["condition"] for entry in row["contributions"]] == ["q", "t", "p", "s"]
    assert (row["label"], row["logit"], row["bias"], row["rest"]) == ("yes", 1.0, 1.0, 0.0)


@pytest.mark.parametrize("top_k", [1, 7, 40, 1000])
def test_the_selection_is_that_of_a_full_sort(top_k: int) -> None:
    generator = np.random.default_rng(0)
    contributions = np.round(generator.normal(size=(20, 101)) * generator.integers(0, 2, (20, 101)), 1)
    names = [str(n) for n in range(101)]
    for row, values in zip(explain_rows(names, np.zeros(20), contributions, top_k), contributions, strict=True):
        ranked = sorted((n for n in range(100) if values[n]), key=lambda n: (-abs(values[n]), n))
        assert [entry["index"] for entry in row["contributions"]] == ranked[:top_k]
        shown = sum(entry["contribution"] for entry in row["contributions"])
        assert row["bias"] + shown + row["rest"] == pytest.approx(values.sum())


@pytest.mark.parametrize("top_k", [0, -1, 1.5, True, "3", None, "\ud800", [1]])
def test_top_k_is_a_count(service: Running, top_k: Any) -> None:
    answer = service.post(EXPLAIN, infer_body(X, parameters={"top_k": top_k}))
    assert answer.status == 400
    assert "parameters.top_k: expected a whole number from 1" in answer.json()["error"]


def test_explanations_have_their_own_limit_of_rows(service: Running) -> None:
    answer = service.post(EXPLAIN, infer_body([X[0]] * 65))
    assert answer.status == 422
    assert "at most 64 rows" in answer.json()["error"]


def test_a_model_without_contributions_or_sidecar_says_so(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch(write_model(tmp_path / "iris.onnx", explain=True, sidecar=False))
    running.wait_for("the model has contributions but no sidecar with their conditions: it will not explain")
    answer = running.post("/v2/models/iris/explain", infer_body(X))
    assert answer.status == 404
    assert "export it with --explain" in answer.json()["error"]
    assert running.post("/v2/models/iris/infer", infer_body(X)).status == 200


def test_a_plain_inference_leaves_the_contributions_out(tmp_path: Path) -> None:
    from lcml.circuits.circuit import initial_circuit
    from lcml.circuits.vtree import balanced
    from lcml.inputs.encoders import ScaleEncoder
    from lcml.model.model import LogisticCircuit
    from lcml_export import export_model

    circuit, generator = initial_circuit(balanced(4)), np.random.default_rng(0)
    weights = generator.normal(size=(3, circuit.n_elements)), generator.normal(size=(3, circuit.n_literals))
    encoder = ScaleEncoder(np.zeros(4), np.ones(4))
    model = LogisticCircuit.flat(circuit, encoder, (0, 1, 2), *weights, generator.normal(size=3))
    export_model(model, tmp_path / "small.onnx", explain=True)
    loaded = load_model(tmp_path / "small.onnx", "small", "1", 1)
    asked: list[dict[str, Array]] = []

    class Watched:
        def run(self, names: list[str], feeds: dict[str, Array]) -> list[Array]:
            asked.append(feeds)
            outputs: list[Array] = loaded.session.run(names, feeds)
            return outputs

        def get_overridable_initializers(self) -> Any:
            return loaded.session.get_overridable_initializers()

    watched = dataclasses.replace(loaded, session=Watched())
    x = generator.random((2, 4)).astype(np.float32)
    (label,) = watched.run(["label"], x)
    both = watched.run(["label", "contributions"], x)
    assert not asked[0]["explain"]
    assert "explain" not in asked[1]
    np.testing.assert_array_equal(label, both[0])
    np.testing.assert_array_equal(label, model.predict(x))
    np.testing.assert_allclose(both[1].sum(axis=1), model.logits(x).max(axis=1), atol=1e-5)


def test_a_model_of_windows_is_served_as_any_other(launch: Callable[..., Running], tmp_path: Path) -> None:
    from lcml.circuits.circuit import initial_circuit
    from lcml.circuits.parts import Part
    from lcml.circuits.views import IdentityView, WindowView, window_vtree
    from lcml.circuits.vtree import balanced
    from lcml.inputs.encoders import ScaleEncoder
    from lcml.model.model import LogisticCircuit
    from lcml_export import export_model

    view = WindowView((1, 4, 3), (2, 2), padding=(1, 0), grid=(2, 1), root=True)
    whole = Part.full(IdentityView(12), initial_circuit(balanced(12)))
    parts = Part.full(view, initial_circuit(window_vtree(view))), whole
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(3, sum(part.n_features for part in parts)))
    model = LogisticCircuit(ScaleEncoder(np.zeros(12), np.ones(12)), parts, ("a", "b", "c"), weights, np.zeros(3))
    export_model(model, tmp_path / "windows.onnx", explain=True, logits=True)
    running = launch(tmp_path / "windows.onnx")
    x = generator.random((5, 12)).astype(np.float32)
    answer = running.post("/v2/models/windows/infer", infer_body(x.tolist()))
    assert answer.status == 200, answer.json()
    outputs = {output["name"]: output for output in answer.json()["outputs"]}
    assert outputs["label"]["data"] == model.predict(x).tolist()
    explained = running.post("/v2/models/windows/explain", infer_body(x.tolist())).json()["explanations"]
    np.testing.assert_allclose([row["logit"] for row in explained], model.logits(x).max(axis=1), atol=1e-5)
    named = [entry["condition"] for row in explained for entry in row["contributions"]]
    assert all(name.endswith((" of part 0", " in part 1")) for name in named)
