"""gRPC, asked by Triton's own client: what it gives is what HTTP gives and what the probabilities are by hand."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient import grpc as triton
from tritonclient.grpc import service_pb2 as messages
from tritonclient.utils import InferenceServerException

from lcml_export import export_model
from lcml_serving.errors import SettingsError
from lcml_serving.grpc_messages import MESSAGES
from lcml_serving.settings import parse_settings
from tests.export.tables import ROWS, logits_by_hand, table_model
from tests.serving.onnx_models import PROBABILITIES, write_model
from tests.serving.onnx_models import X as LISTED
from tests.serving.running import Running, start

TABLE = table_model()
X = np.array(LISTED, np.float32)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service of two models, a matrix's and a table's."""
    root = tmp_path_factory.mktemp("grpc")
    for name in ("iris", "table"):
        (root / name / "1").mkdir(parents=True)
    write_model(root / "iris" / "1" / "model.onnx")
    export_model(TABLE, root / "table" / "1" / "model.onnx", self_check=False)
    running = start(root, "--grpc-port", "0", "--max-rows", "100")
    yield running
    assert running.stop() == 0
    assert [event for event in running.events if "traceback" in event] == []


@pytest.fixture
def client(running: Running) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{running.wait_for('listening')['grpc_port']}") as client:
        yield client


def tensor(name: str, values: Any, datatype: str) -> Any:
    array = np.asarray(values)
    found = triton.InferInput(name, list(array.shape), datatype)
    found.set_data_from_numpy(array)
    return found


def test_messages_are_the_protocols() -> None:
    """Names, numbers and types of all fields are those of Triton's own description."""
    nested = {
        "TensorMetadata": messages.ModelMetadataResponse.TensorMetadata,
        "InferInputTensor": messages.ModelInferRequest.InferInputTensor,
        "InferRequestedOutputTensor": messages.ModelInferRequest.InferRequestedOutputTensor,
        "InferOutputTensor": messages.ModelInferResponse.InferOutputTensor,
    }
    for name, message in MESSAGES.items():
        theirs = {f.name: f for f in (nested.get(name) or getattr(messages, name)).DESCRIPTOR.fields}
        for field in message.DESCRIPTOR.fields:
            same = theirs[field.name]
            assert (field.number, field.type, field.is_repeated) == (same.number, same.type, same.is_repeated), name


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("iris")
    assert client.get_server_metadata(as_json=True)["name"] == "lcml_serving"
    found = client.get_model_metadata("iris", "1", as_json=True)
    assert (found["name"], found["versions"]) == ("iris", ["1"])
    assert found["inputs"] == [{"name": "features", "datatype": "FP32", "shape": ["-1", "4"]}]
    assert {one["name"] for one in found["outputs"]} >= {"label", "probabilities"}


def test_a_matrix_raw_and_typed(client: Any) -> None:
    wanted = [triton.InferRequestedOutput("probabilities")]
    answer = client.infer("iris", [tensor("features", X, "FP32")], outputs=wanted, request_id="7")
    np.testing.assert_allclose(answer.as_numpy("probabilities"), PROBABILITIES, atol=1e-6)
    assert (answer.get_response().id, answer.as_numpy("label")) == ("7", None)
    given = messages.ModelInferRequest(model_name="iris")
    given.inputs.add(name="features", datatype="FP32", shape=X.shape).contents.fp32_contents.extend(X.ravel().tolist())
    response = client._client_stub.ModelInfer(given)
    names = [output.name for output in response.outputs]
    raw = response.raw_output_contents[names.index("probabilities")]
    found = np.frombuffer(raw, np.float32).reshape(len(X), -1)
    np.testing.assert_array_equal(found, answer.as_numpy("probabilities"))


def test_a_table_with_texts_and_gaps(client: Any) -> None:
    def column(name: str, values: list[Any]) -> Any:
        if any(isinstance(value, str) for value in values):
            return tensor(name, np.array([[v or ""] for v in values], object), "BYTES")
        return tensor(name, np.array([[np.nan if v is None else v] for v in values], np.float32), "FP32")

    answer = client.infer("table", [column(name, ROWS[name]) for name in reversed(ROWS)])
    expected = TABLE.head.probabilities(logits_by_hand(TABLE))
    np.testing.assert_allclose(answer.as_numpy("probabilities"), expected, atol=1e-5)
    labels = [text.decode() for text in answer.as_numpy("label")]
    assert labels == [TABLE.classes[k] for k in expected.argmax(axis=1)]


@pytest.mark.parametrize(
    ("model", "inputs", "code", "message"),
    [
        ("rose", [tensor("features", X, "FP32")], "NOT_FOUND", "model 'rose' is not served"),
        ("iris", [tensor("x", X, "FP32")], "INVALID_ARGUMENT", "expected the tensor 'features', found 'x'"),
        ("iris", [tensor("features", X[:, :3], "FP32")], "INVALID_ARGUMENT", r"expected shape \[rows, 4\]"),
        ("iris", [tensor("features", X * np.float32(np.nan), "FP32")], "INVALID_ARGUMENT", "row 0, feature 0"),
        ("iris", [tensor("features", np.zeros((101, 4), np.float32), "FP32")], "INVALID_ARGUMENT", "at most 100 rows"),
        ("table", [tensor("age", [[1.0]], "FP64")], "INVALID_ARGUMENT", "3 columns are missing"),
    ],
)
def test_what_does_not_fit_is_told(client: Any, model: str, inputs: list[Any], code: str, message: str) -> None:
    with pytest.raises(InferenceServerException, match=message) as caught:
        client.infer(model, inputs)
    assert caught.value.status() == f"StatusCode.{code}"


def test_messages_that_are_odd_are_refused(client: Any, running: Running) -> None:
    import grpc

    def refused(given: Any) -> str:
        with pytest.raises(grpc.RpcError) as caught:
            client._client_stub.ModelInfer(given)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        return str(caught.value.details())

    def counted() -> int:
        series = 'lcml_requests_total{code="400",endpoint="grpc_ModelInfer",model="iris",version="1"}'
        lines = running.get("/metrics").body.decode().splitlines()
        return sum(int(float(line.split()[1])) for line in lines if line.startswith(series))

    before = counted()
    one = messages.ModelInferRequest(model_name="iris", raw_input_contents=[b"", b""])
    one.inputs.add(name="features", datatype="FP32", shape=[1, 4])
    assert refused(one) == "raw_input_contents: expected 1, one per input, found 2"
    text = messages.ModelInferRequest(model_name="table")
    text.inputs.add(name="city", datatype="BYTES", shape=[1, 1]).contents.bytes_contents.append(b"\xff")
    assert "expected UTF-8 for BYTES" in refused(text)
    odd = messages.ModelInferRequest(model_name="iris")
    odd.inputs.add(name="features", datatype="FP99", shape=[1, 4])
    assert "expected a datatype among" in refused(odd)
    assert counted() == before + 1  # the others are of the table, and 422


def test_a_token_is_asked_for(launch: Callable[..., Running], tmp_path: Path) -> None:
    path = write_model(tmp_path / "iris.onnx")
    running = launch(path, "--grpc-port", "0", environ={"LCML_SERVING_TOKEN": "secret"})
    with triton.InferenceServerClient(f"127.0.0.1:{running.wait_for('listening')['grpc_port']}") as client:
        assert client.is_server_live()
        for headers in (None, {"authorization": "Bearer other"}):
            with pytest.raises(InferenceServerException, match="Bearer TOKEN") as caught:
                client.infer("iris", [tensor("features", X, "FP32")], headers=headers)
            assert caught.value.status() == "StatusCode.UNAUTHENTICATED"
        answer = client.infer("iris", [tensor("features", X, "FP32")], headers={"authorization": "Bearer secret"})
        np.testing.assert_allclose(answer.as_numpy("probabilities"), PROBABILITIES, atol=1e-6)


def test_without_the_package_the_flag_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write_model(tmp_path / "iris.onnx")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="--grpc-port needs the package grpcio; install the extra grpc"):
        parse_settings([str(path), "--grpc-port", "0"], {})
