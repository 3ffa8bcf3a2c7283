"""Where an export goes: one file, or a model repository as Triton and `lcml serve` read it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from lcml.errors import SettingsError
from lcml.files import write_atomically

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # as the service takes it

_TRITON_TYPES = {
    onnx.TensorProto.FLOAT: "TYPE_FP32",
    onnx.TensorProto.DOUBLE: "TYPE_FP64",
    onnx.TensorProto.UINT8: "TYPE_UINT8",
    onnx.TensorProto.INT64: "TYPE_INT64",
    onnx.TensorProto.STRING: "TYPE_STRING",
}


@dataclass(frozen=True)
class Place:
    """The files of an export. FILE.onnx has its sidecars under its stem; DIR gets NAME/VERSION/model.onnx."""

    model: Path
    explanation: Path
    report: Path
    config: Path | None
    name: str


def place_of(path: str | Path, name: str, version: int) -> Place:
    """Where an export to `path` goes. Raises SettingsError for a name or version that no repository can have."""
    path = Path(path)
    if path.name == "-":
        raise SettingsError("an export is several files: expected FILE.onnx or a DIR for them, not - (standard output)")
    if path.suffix == ".onnx":
        stem = path.stem
        return Place(path, path.with_name(f"{stem}.explain.json"), path.with_name(f"{stem}.report.json"), None, stem)
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"model name {name!r}: expected up to 128 letters, digits and . _ -, such as 'digits'; choose one"
        )
    if version < 1:
        raise SettingsError(f"model version {version}: expected 1 or more")
    folder = path / name / str(version)
    files = (folder / "model.onnx", folder / "explain.json", folder / "report.json", path / name / "config.pbtxt")
    return Place(*files, name)


def write(
    place: Place, content: bytes, config: str, explanation: dict[str, Any] | None, report: dict[str, Any]
) -> None:
    """Write every file whole, the model last: who watches the directory finds it complete.

    An explanation left by an earlier export to the same place is removed. Raises OutputError.
    """
    if explanation is None:
        place.explanation.unlink(missing_ok=True)
    else:
        write_atomically(place.explanation, json.dumps(explanation, ensure_ascii=False))
    write_atomically(place.report, json.dumps(report, indent=2) + "\n")
    if place.config:
        write_atomically(place.config, config)
    write_atomically(place.model, content)


def triton_config(model: onnx.ModelProto, name: str, max_batch_size: int) -> str:
    """The `config.pbtxt` of `model`: dimensions without the batch; a scalar per example is reshaped from [1]."""
    defaults = {initializer.name for initializer in model.graph.initializer}
    inputs = ",\n".join(_tensor(value) for value in model.graph.input if value.name not in defaults)
    outputs = ",\n".join(map(_tensor, model.graph.output))
    return f"""name: {json.dumps(name)}
backend: "onnxruntime"
max_batch_size: {max_batch_size}
input [
{inputs}
]
output [
{outputs}
]
dynamic_batching {{ }}
"""


def _tensor(value: onnx.ValueInfoProto) -> str:
    kind = value.type.tensor_type
    sizes = [dimension.dim_value for dimension in kind.shape.dim][1:]
    dims = f"dims: [ {', '.join(map(str, sizes))} ]" if sizes else "dims: [ 1 ], reshape { shape: [ ] }"
    return f"  {{ name: {json.dumps(value.name)}, data_type: {_TRITON_TYPES[kind.elem_type]}, {dims} }}"
