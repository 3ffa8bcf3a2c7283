"""The Open Inference Protocol over gRPC, beside HTTP: the same models, batches, limits and messages of error."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import Message

from lcml_serving import __version__
from lcml_serving.edge import CLIENT_GONE
from lcml_serving.errors import BadRequestError, RequestError, SettingsError
from lcml_serving.grpc_messages import MESSAGES, SERVICE
from lcml_serving.logs import log
from lcml_serving.oip import EXTENSIONS, InferRequest, model_metadata, read_infer
from lcml_serving.repository import Served
from lcml_serving.service import Service
from lcml_serving.settings import LONGEST
from lcml_serving.tensors import to_bytes

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    503: grpc.StatusCode.UNAVAILABLE,
}
_CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""Where the numbers of a datatype are that do not come raw."""

_OPEN = frozenset({"ServerLive", "ServerReady"})
_LARGE = 2**20  # bytes; above them a thread takes a message apart
_OVERHEAD = 2**16  # of a message beside its tensors

Method = Callable[[Any], Awaitable[Message]]


async def start_grpc(service: Service) -> tuple[Any, int]:
    """A server that listens, and its port. Raises SettingsError where the address cannot be had."""
    settings = service.settings
    options = [
        ("grpc.max_receive_message_length", settings.max_body_bytes + _OVERHEAD),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
    ]
    most = 2 * settings.max_concurrency  # at once, with those that are refused: each may be a large message
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=most)
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            _answering(service, name, method),
            request_deserializer=MESSAGES[f"{name}Request"].FromString,
            response_serializer=MESSAGES[f"{name}Response"].SerializeToString,
        )
        for name, method in _Methods(service).by_name.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    try:
        port = server.add_insecure_port(f"{host}:{settings.grpc_port}")
    except RuntimeError as error:
        where = f"{settings.host[:LONGEST]} port {settings.grpc_port}"
        raise SettingsError(f"cannot listen on {where}; choose --host and --grpc-port") from error
    await server.start()
    return server, port


def _answering(service: Service, name: str, method: Method) -> Callable[[Any, Any], Awaitable[Any]]:
    """The method with what surrounds it: bearer token, errors as statuses, metrics and log line."""

    async def answer(request: Any, context: Any) -> Any:
        started, status = time.perf_counter(), 200
        try:
            if name not in _OPEN:
                service.check_token(str(dict(context.invocation_metadata() or ()).get("authorization", "")))
            return await method(request)
        except RequestError as error:
            status = error.status
            failure = _CODES.get(status, grpc.StatusCode.UNKNOWN), str(error)
        except asyncio.CancelledError:
            status = CLIENT_GONE
            raise
        except Exception:
            status = 500
            log.exception("request failed", extra={"path": f"{SERVICE}/{name}"})
            failure = grpc.StatusCode.INTERNAL, "internal error; the service's log tells more"
        finally:
            seconds = time.perf_counter() - started
            model, version = getattr(request, "model_name", ""), getattr(request, "model_version", "")
            versions = service.repository.table.get(model, {})  # names that are not served must not become labels
            known = (model, version or max(versions, key=int)) if version in ("", *versions) and versions else ("", "")
            service.metrics.count(f"grpc_{name}", *known, status, seconds)
            if service.settings.access_log == "on":
                told = {"method": "gRPC", "path": f"{SERVICE}/{name}", "status": status, "model": known[0]}
                log.info("request", extra=told | {"milliseconds": round(1000 * seconds, 3), "client": context.peer()})
        return await context.abort(*failure)

    traced = name == "ModelInfer" and service.tracing is not None
    return service.tracing.over_grpc(name, answer) if traced else answer


class _Methods:
    """One method of the protocol each, and their names there."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.by_name: Mapping[str, Method] = {
            "ServerLive": self.server_live,
            "ServerReady": self.server_ready,
            "ServerMetadata": self.server_metadata,
            "ModelReady": self.model_ready,
            "ModelMetadata": self.model_metadata,
            "ModelInfer": self.model_infer,
        }

    async def server_live(self, _: Any) -> Message:
        return MESSAGES["ServerLiveResponse"](live=True)

    async def server_ready(self, _: Any) -> Message:
        return MESSAGES["ServerReadyResponse"](ready=self._service.ready)

    async def model_ready(self, request: Any) -> Message:
        self._service.repository.get(request.name, request.version)
        return MESSAGES["ModelReadyResponse"](ready=not self._service.draining)

    async def server_metadata(self, _: Any) -> Message:
        return MESSAGES["ServerMetadataResponse"](name="lcml_serving", version=__version__, extensions=EXTENSIONS)

    async def model_metadata(self, request: Any) -> Message:
        signature = self._service.repository.get(request.name, request.version).model.signature
        versions = sorted(self._service.repository.table[signature.name], key=int)
        told = model_metadata(signature, versions, {})
        del told["parameters"]  # which this message has not
        return MESSAGES["ModelMetadataResponse"](**told)

    async def model_infer(self, request: Any) -> Message:
        served = self._service.repository.get(request.model_name, request.model_version)
        signature = served.model.signature
        with self._service.slot():
            with self._service.stage("decode", signature):
                wanted = await self._read(request, served)
            arrays = await served.predicted(wanted.inputs)
            with self._service.stage("encode", signature):
                outputs, raw = [], []
                for name in wanted.outputs:
                    spec, array = signature.output(name), arrays[name]
                    assert spec is not None
                    outputs.append(MESSAGES["InferOutputTensor"](name=name, datatype=spec.datatype, shape=array.shape))
                    raw.append(to_bytes(array, spec))
                return MESSAGES["ModelInferResponse"](
                    model_name=signature.name,
                    model_version=signature.version,
                    id=request.id,
                    outputs=outputs,
                    raw_output_contents=raw,
                )

    async def _read(self, request: Any, served: Served) -> InferRequest:
        """The checked request, as the same one over HTTP."""

        def read() -> InferRequest:
            message, rest = _as_json(request)
            return read_infer(message, rest, served.model.signature, self._service.settings.max_rows)

        return await asyncio.to_thread(read) if request.ByteSize() > _LARGE else read()


def _as_json(request: Any) -> tuple[dict[str, Any], bytes]:
    """The request as the HTTP protocol has it: its JSON, and the raw tensors behind it. Raises BadRequestError."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise BadRequestError(f"raw_input_contents: expected {len(request.inputs)}, one per input, found {len(raw)}")
    inputs = []
    for i, tensor in enumerate(request.inputs):
        told = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
        parameters = _parameters(tensor.parameters)
        parameters.pop("binary_data_size", None)
        if raw:
            parameters["binary_data_size"] = len(raw[i])
        elif tensor.datatype in _CONTENTS:
            told["data"] = _texts(list(getattr(tensor.contents, _CONTENTS[tensor.datatype])), tensor.name)
        inputs.append({**told, "parameters": parameters})
    outputs = [{"name": output.name, "parameters": _parameters(output.parameters)} for output in request.outputs]
    message = {"id": request.id, "parameters": _parameters(request.parameters), "inputs": inputs, "outputs": outputs}
    return message, b"".join(raw)


def _texts(values: list[Any], name: str) -> list[Any]:
    """What is bytes as text."""
    try:
        return [value.decode() if isinstance(value, bytes) else value for value in values]
    except UnicodeDecodeError as error:
        raise BadRequestError(f"{name[:LONGEST]}: expected UTF-8 for BYTES: {error}") from None


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {key: value.WhichOneof("parameter_choice") for key, value in given.items()}
    return {key: getattr(given[key], field) for key, field in chosen.items() if field}
