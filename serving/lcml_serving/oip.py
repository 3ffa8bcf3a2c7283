"""Open Inference Protocol v2 (KServe, Triton): inference requests and answers with JSON and binary tensors.

A body is JSON, or JSON followed by raw little-endian tensors; the header Inference-Header-Content-Length then says
where the JSON ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lcml_serving.columns import to_inputs
from lcml_serving.errors import BadRequestError, NotFoundError, short
from lcml_serving.features import parse_json, to_features, to_json
from lcml_serving.signature import Array, Signature, TensorSpec
from lcml_serving.tensors import columns_by_name, object_at, read_tensor, to_bytes

EXTENSIONS = ("binary_tensor_data", "model_repository", "explain")
"""Of the protocol, over HTTP."""


@dataclass(frozen=True)
class InferRequest:
    """A checked request: inputs of the model's dtypes; outputs: whether each is wanted as binary."""

    id: str | None
    inputs: tuple[Array, ...]
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
    return read_infer(parse_json(body[:end]), body[end:], model, max_rows)


def read_infer(message: Mapping[str, Any], rest: bytes, model: Signature, max_rows: int) -> InferRequest:
    """The same of a message in JSON, and what follows it."""
    request_id = message.get("id")
    if request_id is not None and not isinstance(request_id, str):
        raise BadRequestError("id: expected a text")
    parameters = object_at(message, "parameters")
    inputs: Any = message.get("inputs")
    is_list = isinstance(inputs, list) and all(isinstance(tensor, dict) for tensor in inputs)
    if not is_list or not (model.columns or len(inputs) == 1):
        expected = "tensors, one per column" if model.columns else f"one tensor, {model.input.name!r}"
        raise BadRequestError(f"inputs: expected a list of {expected}")
    if model.columns:
        arrays = to_inputs(columns_by_name(inputs, rest, max_rows), model, max_rows)
    else:
        name = inputs[0].get("name")
        if name != model.input.name:
            raise BadRequestError(f"inputs: expected the tensor {model.input.name!r}, found {short(name)}")
        arrays = (to_features(read_tensor(inputs[0], rest, model.n_features, max_rows), model, max_rows),)
    return InferRequest(request_id, arrays, _outputs(message, model, parameters), parameters)


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
            chunk = to_bytes(array, spec)
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
        "inputs": [_describe(spec) for spec in model.inputs],
        "outputs": [_describe(output) for output in model.outputs if output.name in model.predictions],
        "parameters": dict(parameters),
    }


def _describe(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}


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
        own = object_at(output, "parameters")
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
