"""Open Inference Protocol v2 (KServe, Triton): inference requests and answers with JSON and binary tensors.

A body is JSON, or JSON followed by raw little-endian tensors; the header Inference-Header-Content-Length then says
where the JSON ends. A text in a binary tensor is 4 bytes of length and UTF-8.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lcml_serving.errors import BadRequestError, NotFoundError, UnprocessableError, short
from lcml_serving.features import check_rows, numbers, parse_json, to_features, to_json
from lcml_serving.signature import Array, Signature, TensorSpec

HEADER_LENGTH = "inference-header-content-length"

# datatype -> (numpy dtype on the wire, kinds of JSON number that it takes)
DATATYPES: Mapping[str, tuple[np.dtype[Any], str]] = {
    "BOOL": (np.dtype("?"), "b"),
    **{f"UINT{bits}": (np.dtype(f"<u{bits // 8}"), "iu") for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": (np.dtype(f"<i{bits // 8}"), "iu") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": (np.dtype(f"<f{bits // 8}"), "iuf") for bits in (16, 32, 64)},
}


@dataclass(frozen=True)
class InferRequest:
    """A checked request: features in the dtype of the model's input; outputs: whether each is wanted as binary."""

    id: str | None
    features: Array
    outputs: Mapping[str, bool]
    parameters: Mapping[str, Any]


def header_end(header_length: str | None, body_length: int) -> int:
    """Where the JSON of a body ends, by the header Inference-Header-Content-Length. Raises BadRequestError."""
    if header_length is None:
        return body_length
    if not (header_length.isascii() and header_length.isdecimal()) or len(header_length) > 12:
        raise BadRequestError("Inference-Header-Content-Length: expected a number of bytes")
    if int(header_length) > body_length:
        message = f"Inference-Header-Content-Length is {header_length}, but the body has {body_length} bytes"
        raise BadRequestError(message)
    return int(header_length)


def parse_infer(body: bytes, end: int, model: Signature, max_rows: int) -> InferRequest:
    """An inference request for this model; the JSON in `body` ends at `end` (`header_end`).

    Raises BadRequestError where the body is not the protocol, NotFoundError for an output that the model lacks, and
    UnprocessableError where the tensor does not fit the model.
    """
    message = parse_json(body[:end])
    request_id = message.get("id")
    if request_id is not None and not isinstance(request_id, str):
        raise BadRequestError("id: expected a text")
    parameters = _object(message, "parameters")
    inputs = message.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise BadRequestError(f"inputs: expected a list of one tensor, {model.input.name!r}")
    values = _tensor(inputs[0], body[end:], model, max_rows)
    features = to_features(values, model, max_rows)
    return InferRequest(request_id, features, _outputs(message, model, parameters), parameters)


def render_infer(
    request_id: str | None, outputs: Mapping[str, bool], model: Signature, arrays: Mapping[str, Array]
) -> tuple[bytes, int | None]:
    """The body of the answer, and the length of its JSON where binary tensors follow it."""
    tensors: list[dict[str, Any]] = []
    chunks: list[bytes] = []
    for name, binary in outputs.items():
        array, spec = arrays[name], model.output(name)
        assert spec is not None
        tensor: dict[str, Any] = {"name": spec.name, "datatype": spec.datatype, "shape": list(array.shape)}
        if binary:
            chunk = _to_bytes(array, spec)
            chunks.append(chunk)
            tensor["parameters"] = {"binary_data_size": len(chunk)}
        else:
            tensor["data"] = array.ravel().tolist()
        tensors.append(tensor)
    message: dict[str, Any] = {"model_name": model.name, "model_version": model.version, "outputs": tensors}
    if request_id is not None:
        message["id"] = request_id
    header = to_json(message)
    return b"".join([header, *chunks]), len(header) if chunks else None


def model_metadata(model: Signature, versions: list[str], parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": model.name,
        "versions": versions,
        "platform": "onnxruntime_onnx",
        "inputs": [_describe(model.input)],
        "outputs": [_describe(output) for output in model.outputs if output.name in model.predictions],
        "parameters": dict(parameters),
    }


def _describe(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}


def _tensor(tensor: Mapping[str, Any], rest: bytes, model: Signature, max_rows: int) -> Array:
    name = tensor.get("name")
    if name != model.input.name:
        raise BadRequestError(f"inputs: expected the tensor {model.input.name!r}, found {short(name)}")
    datatype = tensor.get("datatype")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise UnprocessableError(f"{name}: expected a datatype among {', '.join(DATATYPES)}, found {short(datatype)}")
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 2**31 for size in shape):
        raise BadRequestError(f"{name}: expected a shape such as [1, {model.n_features}], found {short(shape)}")
    if len(shape) != 2 or shape[1] != model.n_features:
        raise UnprocessableError(f"{name}: expected shape [rows, {model.n_features}], found {short(shape)}")
    dtype, kinds = DATATYPES[datatype]
    parameters = _object(tensor, "parameters")
    size = parameters.get("binary_data_size")
    if "shared_memory_region" in parameters:
        raise BadRequestError(f"{name}: shared memory is not supported; send the tensor in the body")
    if size is None:
        if rest:
            raise BadRequestError(f"{len(rest)} bytes follow the JSON, but {name} has no binary_data_size")
        if "data" not in tensor:
            raise BadRequestError(f"{name}: expected data, or a binary_data_size and the header {HEADER_LENGTH}")
        data = tensor["data"]
        if isinstance(data, list) and (size := _size(data)) != shape[0] * shape[1]:
            raise UnprocessableError(f"{name}: shape {short(shape)} needs {shape[0] * shape[1]} numbers, found {size}")
        check_rows(shape[0], max_rows)
        return _checked(numbers(data, f"{name}.data"), name, datatype, dtype, kinds).reshape(shape)
    if "data" in tensor:
        raise BadRequestError(f"{name}: expected either data or binary_data_size, found both")
    if type(size) is not int or size != len(rest):
        raise BadRequestError(f"{name}: binary_data_size is {short(size)}, but {len(rest)} bytes follow the JSON")
    if size != shape[0] * shape[1] * dtype.itemsize:
        expected = shape[0] * shape[1] * dtype.itemsize
        raise BadRequestError(f"{name}: shape {short(shape)} of {datatype} needs {expected} bytes, found {size}")
    if datatype == "BOOL" and (np.frombuffer(rest, np.uint8) > 1).any():
        raise UnprocessableError(f"{name}: expected bytes 0 and 1 for BOOL")
    return np.frombuffer(rest, dtype).reshape(shape)


def _size(values: list[Any]) -> int:
    """How many numbers nested lists hold, if they hold nothing else and are of one depth."""
    if not values or not isinstance(values[0], list):
        return len(values)
    return sum(_size(value) if isinstance(value, list) else 1 for value in values)


def _checked(values: Array, name: str, datatype: str, dtype: np.dtype[Any], kinds: str) -> Array:
    if values.size and values.dtype.kind not in kinds:
        raise UnprocessableError(f"{name}: expected {datatype}, found numbers of another kind ({values.dtype})")
    if dtype.kind in "iu" and values.size:
        info = np.iinfo(dtype)
        if int(values.min()) < info.min or int(values.max()) > info.max:
            raise UnprocessableError(f"{name}: expected {datatype}, found a number outside {info.min} to {info.max}")
    return values


def _outputs(message: Mapping[str, Any], model: Signature, parameters: Mapping[str, Any]) -> dict[str, bool]:
    default = _flag(parameters, "binary_data_output", False)
    wanted = message.get("outputs")
    if wanted is None or wanted == []:
        return dict.fromkeys(model.predictions, default)
    if not isinstance(wanted, list) or not all(isinstance(output, dict) for output in wanted):
        raise BadRequestError("outputs: expected a list of objects with a name")
    binary = {}
    for output in wanted:
        name = output.get("name")
        if name not in model.predictions:
            raise NotFoundError(f"outputs: expected among {', '.join(model.predictions)}, found {short(name)}")
        own = _object(output, "parameters")
        if unsupported := own.keys() & {"classification", "shared_memory_region"}:
            raise BadRequestError(f"outputs: {min(unsupported)} is not supported")
        binary[name] = _flag(own, "binary_data", default)
    if len(binary) < len(wanted):
        raise BadRequestError("outputs: an output is asked for twice")
    return binary


def _flag(parameters: Mapping[str, Any], key: str, default: bool) -> bool:
    value = parameters.get(key, default)
    if not isinstance(value, bool):
        raise BadRequestError(f"parameters: expected true or false for {key}, found {short(value)}")
    return value


def _object(message: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = message.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequestError(f"{key}: expected an object, found {short(value)}")
    return value


def _to_bytes(array: Array, spec: TensorSpec) -> bytes:
    if spec.datatype != "BYTES":
        return array.astype(spec.dtype, copy=False).tobytes()
    texts = [text.encode() for text in array.ravel().tolist()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)
