"""Open Inference Protocol v2, with tritonclient as an independent client, and malformed requests by hand."""

import copy
import gzip
import http.client
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from tests.serving.onnx_models import LOGITS, PROBABILITIES, X
from tests.serving.running import Running, infer_body


@pytest.fixture(scope="module")
def client(service: Running) -> Iterator[triton.InferenceServerClient]:
    client = triton.InferenceServerClient(service.url)
    yield client
    client.close()


def _tensor(rows: Any, dtype: Any, datatype: str, binary: bool) -> triton.InferInput:
    array = np.array(rows, dtype).reshape(-1, 4)
    tensor = triton.InferInput("features", array.shape, datatype)
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def test_health_metadata_and_index(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("plain")
    assert client.is_model_ready("plain", "1")
    assert not client.is_model_ready("plain", "2")
    assert not client.is_model_ready("rose")
    assert client.get_server_metadata()["name"] == "lcml_serving"
    metadata = client.get_model_metadata("plain")
    assert metadata["versions"] == ["1", "3"]
    assert metadata["inputs"] == [{"name": "features", "datatype": "FP32", "shape": [-1, 4]}]
    assert [output["name"] for output in metadata["outputs"]] == ["label", "probabilities", "logits"]
    assert metadata["parameters"]["explains"] is True
    assert client.get_model_metadata("plain", "1")["parameters"]["explains"] is False
    served = [(entry["name"], entry["version"], entry["state"]) for entry in client.get_model_repository_index()]
    names = [("bytes", "1"), ("divide", "1"), ("plain", "1"), ("plain", "3"), ("words", "1")]
    assert served == [(*name, "READY") for name in names]


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_tritonclient_infers(
    client: triton.InferenceServerClient, binary_in: bool, binary_out: bool, compression: str | None
) -> None:
    outputs = [triton.InferRequestedOutput(name, binary_data=binary_out) for name in ("probabilities", "label")]
    result = client.infer(
        "plain",
        [_tensor(X * 30, np.float32, "FP32", binary_in)],
        outputs=outputs,
        request_id="r1",
        request_compression_algorithm=compression,
        response_compression_algorithm=compression,
    )
    assert result.as_numpy("label").tolist() == [10, 30, 20] * 30
    np.testing.assert_allclose(result.as_numpy("probabilities"), PROBABILITIES * 30, atol=1e-6)
    assert result.as_numpy("logits") is None
    response = result.get_response()
    assert (response["model_name"], response["model_version"], response["id"]) == ("plain", "3", "r1")


def test_all_outputs_are_the_default(client: triton.InferenceServerClient) -> None:
    result = client.infer("plain", [_tensor(X, np.float32, "FP32", True)])
    np.testing.assert_allclose(result.as_numpy("logits"), LOGITS)
    assert result.as_numpy("contributions") is None


def test_a_version_is_asked_by_number(client: triton.InferenceServerClient) -> None:
    result = client.infer("plain", [_tensor(X, np.float32, "FP32", True)], model_version="1")
    assert result.as_numpy("label").tolist() == [30, 30, 30]  # version 1 has bias 9 for the third class


@pytest.mark.parametrize("binary", [True, False])
def test_texts_as_labels(client: triton.InferenceServerClient, binary: bool) -> None:
    outputs = [triton.InferRequestedOutput("label", binary_data=binary)]
    result = client.infer("words", [_tensor(X, np.float64, "FP64", binary)], outputs=outputs)
    labels = [text.decode() if isinstance(text, bytes) else text for text in result.as_numpy("label").tolist()]
    assert labels == ["low", "high", "mid"]


@pytest.mark.parametrize(
    ("model", "dtype", "datatype"),
    [
        ("plain", np.float64, "FP64"),
        ("plain", np.float16, "FP16"),
        ("plain", np.int8, "INT8"),
        ("plain", np.uint64, "UINT64"),
        ("bytes", np.uint8, "UINT8"),
        ("bytes", np.int64, "INT64"),
        ("bytes", np.float32, "FP32"),
    ],
)
@pytest.mark.parametrize("binary", [True, False])
def test_other_datatypes_that_fit(
    client: triton.InferenceServerClient, model: str, dtype: Any, datatype: str, binary: bool
) -> None:
    if datatype == "FP16":
        binary = True  # tritonclient has no other way for it
    result = client.infer(model, [_tensor(X, dtype, datatype, binary)])
    np.testing.assert_allclose(result.as_numpy("logits"), LOGITS)


def test_booleans(client: triton.InferenceServerClient) -> None:
    for binary in (True, False):
        result = client.infer("plain", [_tensor([[1, 0, 1, 0]], bool, "BOOL", binary)])
        assert result.as_numpy("logits").tolist() == [[1.5, 0.5, -2.0]]


@pytest.mark.parametrize("binary", [True, False])
def test_no_rows_give_no_rows(service: Running, client: triton.InferenceServerClient, binary: bool) -> None:
    body = infer_body([], parameters={"binary_data_output": binary})
    answer = service.post("/v2/models/plain/infer", body)
    assert answer.status == 200
    length = int(answer.headers.get("inference-header-content-length", len(answer.body)))
    shapes = [output["shape"] for output in json.loads(answer.body[:length])["outputs"]]
    assert shapes == [[0], [0, 3], [0, 3]]


def test_data_may_be_flat_or_nested(service: Running) -> None:
    nested = service.post("/v2/models/plain/infer", infer_body(X)).json()
    body = infer_body(X)
    body["inputs"][0]["data"] = [value for row in X for value in row]
    assert service.post("/v2/models/plain/infer", body).json() == nested


def test_tritonclient_is_told_what_is_wrong(client: triton.InferenceServerClient) -> None:
    with pytest.raises(InferenceServerException, match=r"\[422\] row 1, feature 2: expected a finite float32"):
        client.infer("plain", [_tensor([[0] * 4, [0, 0, np.nan, 0]], np.float32, "FP32", True)])
    with pytest.raises(InferenceServerException, match="model 'rose' is not served"):
        client.infer("rose", [_tensor(X, np.float32, "FP32", True)])
    with pytest.raises(InferenceServerException, match="expected among label, probabilities, logits, found 'odds'"):
        client.infer("plain", [_tensor(X, np.float32, "FP32", True)], outputs=[triton.InferRequestedOutput("odds")])
    outputs = [triton.InferRequestedOutput("label", class_count=2)]
    with pytest.raises(InferenceServerException, match="classification is not supported"):
        client.infer("plain", [_tensor(X, np.float32, "FP32", True)], outputs=outputs)


Change = Callable[[dict[str, Any]], Any]


def _tensor_with(**fields: Any) -> Change:
    return lambda body: body["inputs"][0].update(fields)


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (_tensor_with(name="pixels"), 400, "expected the tensor 'features', found 'pixels'"),
        (_tensor_with(name=None), 400, "expected the tensor 'features'"),
        (_tensor_with(datatype="BYTES"), 422, "expected a datatype among BOOL"),
        (_tensor_with(datatype=["FP32"]), 422, "expected a datatype"),
        (_tensor_with(datatype="INT32"), 422, "expected INT32, found numbers of another kind"),
        (_tensor_with(datatype="BOOL"), 422, "expected BOOL"),
        (_tensor_with(datatype="INT8", data=[300] * 12), 422, "found a number outside -128 to 127"),
        (_tensor_with(shape=[3]), 422, r"expected shape [rows, 4], found [3]"),
        (_tensor_with(shape=[4, 3]), 422, "expected shape [rows, 4], found [4, 3]"),
        (_tensor_with(shape=[2, 4]), 422, "needs 8 numbers, found 12"),
        (_tensor_with(shape=[-1, 4]), 400, "expected a shape such as"),
        (_tensor_with(shape=[True, 4]), 400, "expected a shape such as"),
        (_tensor_with(shape="3x4"), 400, "expected a shape such as"),
        (_tensor_with(shape=[10**30, 4]), 400, "expected a shape such as"),
        (_tensor_with(shape=[2**30, 4]), 422, "needs 4294967296 numbers, found 12"),
        (_tensor_with(data="abc"), 422, "expected a list, found str"),
        (_tensor_with(data=[[1, 2, 3, 4], [1, 2]]), 422, "needs 12 numbers, found 6"),
        (_tensor_with(data=[[1] * 4, [1] * 2, [1] * 6]), 422, "found rows that differ"),
        (_tensor_with(data=[["1"] * 4] * 3), 422, "found something else among them"),
        (
            _tensor_with(data=[[0, 0, None, 0]] * 3),
            422,
            "row 0, feature 2: expected a finite float32 number, found nan",
        ),
        (_tensor_with(data=[[{}] * 4] * 3), 422, "found something else among them"),
        (_tensor_with(data=[[10**400] * 4] * 3), 422, "features.data: expected numbers"),
        (_tensor_with(data=[[1e39] * 4] * 3), 422, "row 0, feature 0: expected a finite float32 number, found 1e+39"),
        (_tensor_with(parameters={"binary_data_size": 48}), 400, "either data or binary_data_size"),
        (_tensor_with(parameters={"shared_memory_region": "x"}), 400, "shared memory is not supported"),
        (_tensor_with(parameters=[1]), 400, "parameters: expected an object"),
        (lambda body: body["inputs"][0].pop("data"), 400, "expected data, or a binary_data_size"),
        (lambda body: body.update(inputs=[]), 400, "inputs: expected a list of one tensor"),
        (lambda body: body.update(inputs=body["inputs"] * 2), 400, "inputs: expected a list of one tensor"),
        (lambda body: body.update(inputs={"name": "features"}), 400, "inputs: expected a list of one tensor"),
        (lambda body: body.update(inputs=["features"]), 400, "inputs: expected a list of one tensor"),
        (lambda body: body.pop("inputs"), 400, "inputs: expected a list of one tensor"),
        (lambda body: body.update(id=7), 400, "id: expected a text"),
        (lambda body: body.update(parameters="fast"), 400, "parameters: expected an object"),
        (lambda body: body.update(parameters={"binary_data_output": 1}), 400, "expected true or false"),
        (lambda body: body.update(outputs="label"), 400, "outputs: expected a list of objects"),
        (lambda body: body.update(outputs=["label"]), 400, "outputs: expected a list of objects"),
        (lambda body: body.update(outputs=[{"name": ["label"]}]), 404, "outputs: expected among"),
        (lambda body: body.update(outputs=[{"name": "contributions"}]), 404, "outputs: expected among"),
        (lambda body: body.update(outputs=[{"name": "label"}] * 2), 400, "asked for twice"),
        (_tensor_with(shape=[101, 4], data=[0] * 404), 422, "expected at most 100 rows in a request, found 101"),
    ],
)
def test_malformed_messages(service: Running, change: Change, status: int, message: str) -> None:
    body = copy.deepcopy(infer_body(X))
    change(body)
    answer = service.post("/v2/models/plain/infer", body)
    assert (answer.status, message in answer.json()["error"]) == (status, True), answer.body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"inputs": NaN}',
        b'{"inputs": [-Infinity]}',
        b'{"id": "\\ud800", "inputs": 1}',
        b"[" * 100_000,
        b'{"inputs": ' + b"9" * 10_000 + b"}",
    ],
)
@pytest.mark.parametrize("path", ["/v2/models/plain/infer", "/v2/models/plain/explain"])
def test_bodies_that_are_no_request(service: Running, path: str, body: bytes) -> None:
    answer = service.post(path, body)
    assert answer.status == 400
    assert "error" in answer.json()


def test_a_lone_surrogate_in_the_id_comes_back(service: Running) -> None:
    answer = service.post("/v2/models/plain/infer", infer_body(X, id="\ud800"))
    assert answer.status == 200
    assert answer.json()["id"] == "\ud800"


@pytest.mark.parametrize("value", [-1, 256, 0.5, 1e30])
def test_an_integer_input_takes_only_what_it_holds(service: Running, value: float) -> None:
    answer = service.post("/v2/models/bytes/infer", infer_body([[0, 0, 0, value]]))
    assert answer.status == 422
    assert "row 0, feature 3: expected a whole number that uint8 holds" in answer.json()["error"]


def test_a_row_without_a_finite_answer_is_named(service: Running) -> None:
    answer = service.post("/v2/models/divide/infer", infer_body([[1, 0, 0, 0], [0, 0, 0, 0]]))
    assert answer.status == 422
    assert "row 1: the model gives no finite probabilities" in answer.json()["error"]


_HEADER = json.dumps(
    {
        "inputs": [
            {"name": "features", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": 16}},
        ]
    }
).encode()


@pytest.mark.parametrize(
    ("length", "tail", "status"),
    [
        (str(len(_HEADER)), bytes(16), 200),
        (str(len(_HEADER)), bytes(15), 400),
        (str(len(_HEADER)), bytes(17), 400),
        (str(len(_HEADER)), b"", 400),
        (str(len(_HEADER) + 1), bytes(16), 400),
        (str(len(_HEADER) + 17), bytes(16), 400),
        ("0", bytes(16), 400),
        ("-5", bytes(16), 400),
        ("1e2", bytes(16), 400),
        ("9" * 40, bytes(16), 400),
        ("²", bytes(16), 400),
        ("", bytes(16), 400),
        (None, bytes(16), 400),
        (str(len(_HEADER)), np.array([0, 0, 0, np.inf], "<f4").tobytes(), 422),
    ],
)
def test_lengths_of_binary_tensors(service: Running, length: str | None, tail: bytes, status: int) -> None:
    headers = {} if length is None else {"Inference-Header-Content-Length": length}
    assert service.post("/v2/models/plain/infer", _HEADER + tail, headers).status == status


def test_a_binary_boolean_is_0_or_1(service: Running) -> None:
    tensor = {"name": "features", "datatype": "BOOL", "shape": [1, 4], "parameters": {"binary_data_size": 4}}
    header = json.dumps({"inputs": [tensor]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(header))}
    assert service.post("/v2/models/plain/infer", header + b"\x00\x01\x00\x01", headers).status == 200
    assert service.post("/v2/models/plain/infer", header + b"\x00\x02\x00\x01", headers).status == 422


@pytest.mark.parametrize(
    ("encoding", "encode", "status"),
    [
        ("gzip", gzip.compress, 200),
        ("deflate", zlib.compress, 200),
        ("identity", bytes, 200),
        ("GZIP", gzip.compress, 200),
        ("br", bytes, 415),
        ("gzip, gzip", gzip.compress, 415),
        ("gzip", bytes, 400),
        ("gzip", lambda body: gzip.compress(body)[:-1], 400),
        ("gzip", lambda body: gzip.compress(body) + b"x", 400),
        ("deflate", gzip.compress, 400),
        ("gzip", lambda body: gzip.compress(body + b" " * 100_000_000), 413),  # a bomb: 97 kB
        ("deflate", lambda body: zlib.compress(body + b" " * 10_000_000), 413),
    ],
)
def test_encodings_of_the_body(service: Running, encoding: str, encode: Callable[[bytes], bytes], status: int) -> None:
    body = encode(json.dumps(infer_body(X)).encode())
    assert service.post("/v2/models/plain/infer", body, {"Content-Encoding": encoding}).status == status


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip", "gzip"), ("br, deflate;q=0.5", "deflate"), ("gzip;q=0", None), ("identity", None), ("", None)],
)
def test_large_answers_are_compressed_where_accepted(service: Running, accepted: str, encoding: str | None) -> None:
    answer = service.post("/v2/models/plain/infer", infer_body(X * 30), {"Accept-Encoding": accepted})
    assert answer.headers.get("content-encoding") == encoding
    body = answer.body
    if encoding is not None:
        body = gzip.decompress(body) if encoding == "gzip" else zlib.decompress(body)
    assert json.loads(body)["outputs"][0]["data"] == [10, 30, 20] * 30


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/models/plain/infer", 405),
        ("POST", "/v2/health/live", 405),
        ("DELETE", "/v2/models/plain", 405),
        ("GET", "/", 404),
        ("GET", "/v2/models/", 404),
        ("GET", "/v2/models/rose", 404),
        ("GET", "/v2/models/..%2Fplain", 404),
        ("GET", "/v2/models/plain/versions/2", 404),
        ("GET", "/v2/models/plain/versions/03", 404),
        ("POST", "/v2/models/plain/versions/x/infer", 404),
        ("POST", "/v2/repository/models/rose/load", 404),
    ],
)
def test_unknown_paths_and_methods(service: Running, method: str, path: str, status: int) -> None:
    answer = service.call(method, path)
    assert (answer.status, list(answer.json())) == (status, ["error"])


def test_a_trailing_slash_leads_to_no_other_host(service: Running) -> None:
    answer = service.get("/v2/", {"Host": "elsewhere.example"})
    assert (answer.status, answer.json()["name"]) == (200, "lcml_serving")
    assert "location" not in answer.headers


def test_one_connection_carries_many_requests_good_and_bad(service: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    for _ in range(3):
        for body, status in ((infer_body(X), 200), (infer_body([[1.0]]), 422), ({}, 400)):
            connection.request("POST", "/v2/models/plain/infer", json.dumps(body))
            response = connection.getresponse()
            response.read()
            assert response.status == status
    connection.close()
