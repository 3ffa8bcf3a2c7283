"""The messages of the Open Inference Protocol over gRPC, package `inference`, made here from their description.

    FIELDS[message]    (name, type) with the number of the field by its place, counted from 1

A type is a scalar of protobuf's or another message; [] means repeated, {} a map from texts.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "inference.GRPCInferenceService"
_PACKAGE = "inference"

_VERSIONED = (("name", "string"), ("version", "string"))
_TENSOR = (("name", "string"), ("datatype", "string"), ("shape", "int64[]"), ("parameters", "InferParameter{}"))
FIELDS: Mapping[str, Sequence[tuple[str, str]]] = {
    "ServerLiveRequest": (),
    "ServerLiveResponse": (("live", "bool"),),
    "ServerReadyRequest": (),
    "ServerReadyResponse": (("ready", "bool"),),
    "ModelReadyRequest": _VERSIONED,
    "ModelReadyResponse": (("ready", "bool"),),
    "ServerMetadataRequest": (),
    "ServerMetadataResponse": (*_VERSIONED, ("extensions", "string[]")),
    "ModelMetadataRequest": _VERSIONED,
    "TensorMetadata": _TENSOR[:3],
    "ModelMetadataResponse": (
        *(("name", "string"), ("versions", "string[]"), ("platform", "string")),
        *(("inputs", "TensorMetadata[]"), ("outputs", "TensorMetadata[]")),
    ),
    "InferParameter": (
        *(("bool_param", "bool"), ("int64_param", "int64"), ("string_param", "string")),
        *(("double_param", "double"), ("uint64_param", "uint64")),
    ),
    "InferTensorContents": (
        *(("bool_contents", "bool[]"), ("int_contents", "int32[]"), ("int64_contents", "int64[]")),
        *(("uint_contents", "uint32[]"), ("uint64_contents", "uint64[]")),
        *(("fp32_contents", "float[]"), ("fp64_contents", "double[]"), ("bytes_contents", "bytes[]")),
    ),
    "InferInputTensor": (*_TENSOR, ("contents", "InferTensorContents")),
    "InferRequestedOutputTensor": (("name", "string"), ("parameters", "InferParameter{}")),
    "ModelInferRequest": (
        *(("model_name", "string"), ("model_version", "string"), ("id", "string"), ("parameters", "InferParameter{}")),
        *(("inputs", "InferInputTensor[]"), ("outputs", "InferRequestedOutputTensor[]")),
        ("raw_input_contents", "bytes[]"),
    ),
    "InferOutputTensor": (*_TENSOR, ("contents", "InferTensorContents")),
    "ModelInferResponse": (
        *(("model_name", "string"), ("model_version", "string"), ("id", "string"), ("parameters", "InferParameter{}")),
        *(("outputs", "InferOutputTensor[]"), ("raw_output_contents", "bytes[]")),
    ),
}
_ONE_OF = {"InferParameter": "parameter_choice"}  # messages of whose fields one is given, and what the choice is called
_Field = descriptor_pb2.FieldDescriptorProto
_TYPE = re.compile(r"(\w+)(\[\]|\{\})?")


def _field(of: Any, name: str, number: int, kind: str, repeated: bool) -> Any:
    """A field added to a message."""
    field = of.field.add(name=name, number=number, label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL)
    if kind[0].isupper():
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        field.type = getattr(_Field, f"TYPE_{kind.upper()}")
    return field


def _messages() -> dict[str, Any]:
    """The message classes by name."""
    file = descriptor_pb2.FileDescriptorProto(name="lcml/open_inference.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        if name in _ONE_OF:
            message.oneof_decl.add(name=_ONE_OF[name])
        for number, (field_name, text) in enumerate(fields, 1):
            kind, many = _TYPE.fullmatch(text).groups()  # type: ignore[union-attr]  # all of the table match
            if many == "{}":
                entry = message.nested_type.add(name=f"{field_name.title()}Entry")
                entry.options.map_entry = True
                _field(entry, "key", 1, "string", False)
                _field(entry, "value", 2, kind, False)
                kind = f"{name}.{entry.name}"
            field = _field(message, field_name, number, kind, bool(many))
            if name in _ONE_OF:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()  # of its own: a client in the same process has messages of these names
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in FIELDS}


MESSAGES = _messages()
