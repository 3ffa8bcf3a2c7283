"""The messages of the Open Inference Protocol over gRPC, package `inference`, made here from their description.

    FIELDS[message]    "type name, ...", in the order of the fields' numbers, which count from 1

A type is a scalar of protobuf's or another message; [] means repeated, {} a map from texts.
"""

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "inference.GRPCInferenceService"
_PACKAGE = "inference"

_TENSOR = "string name, string datatype, int64[] shape, InferParameter{} parameters"
_INFER = "string model_name, string model_version, string id, InferParameter{} parameters"
FIELDS: Mapping[str, str] = {
    "ServerLiveRequest": "",
    "ServerLiveResponse": "bool live",
    "ServerReadyRequest": "",
    "ServerReadyResponse": "bool ready",
    "ModelReadyRequest": "string name, string version",
    "ModelReadyResponse": "bool ready",
    "ServerMetadataRequest": "",
    "ServerMetadataResponse": "string name, string version, string[] extensions",
    "ModelMetadataRequest": "string name, string version",
    "TensorMetadata": "string name, string datatype, int64[] shape",
    "ModelMetadataResponse": (
        "string name, string[] versions, string platform, TensorMetadata[] inputs, TensorMetadata[] outputs"
    ),
    "InferParameter": (
        "bool bool_param, int64 int64_param, string string_param, double double_param, uint64 uint64_param"
    ),
    "InferTensorContents": (
        "bool[] bool_contents, int32[] int_contents, int64[] int64_contents, uint32[] uint_contents, "
        "uint64[] uint64_contents, float[] fp32_contents, double[] fp64_contents, bytes[] bytes_contents"
    ),
    "InferInputTensor": f"{_TENSOR}, InferTensorContents contents",
    "InferRequestedOutputTensor": "string name, InferParameter{} parameters",
    "ModelInferRequest": (
        f"{_INFER}, InferInputTensor[] inputs, InferRequestedOutputTensor[] outputs, bytes[] raw_input_contents"
    ),
    "InferOutputTensor": f"{_TENSOR}, InferTensorContents contents",
    "ModelInferResponse": f"{_INFER}, InferOutputTensor[] outputs, bytes[] raw_output_contents",
}
_ONE_OF = {"InferParameter": "parameter_choice"}  # messages of whose fields one is given, and what the choice is called
_Field = descriptor_pb2.FieldDescriptorProto
_FIELD = re.compile(r"(\w+)(\[\]|\{\})? (\w+)")


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
        for number, (kind, many, field_name) in enumerate(_FIELD.findall(fields), 1):
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
