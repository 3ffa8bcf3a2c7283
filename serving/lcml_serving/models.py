"""One model file on onnxruntime, checked against what the exporter promises.

input   features       (batch, n_features) float32, float64 or uint8
        or of a table one input per column of lcml.columns, named as it, (batch, 1) float32, float64 or string
output  label          (batch,) int64 or string
output  probabilities  (batch, n_classes) float32
output  logits         (batch, n_logits), optional
output  contributions  (batch, n_contributions), optional: what each feature adds to the predicted class's logit,
                       the bias last; computed only when asked for
sidecar STEM.explain.json, or explain.json beside model.onnx: {"conditions": [n_contributions texts]}
metadata_props  lcml.classes (JSON list), lcml.feature_names (JSON list, optional), lcml.columns (JSON list of objects,
                optional), lcml.* as they are
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnxruntime

from lcml_serving.errors import ModelError
from lcml_serving.model_files import read_files
from lcml_serving.signature import PREDICTIONS, Array, Column, Signature, TensorSpec

CONTRIBUTIONS = "contributions"
_MESSAGE = 300  # characters of a library's message
_MAX_FEATURES = 2**24  # a row of them as JSON is larger than the largest body by default
_EXPLAIN = "explain"
"""An optional scalar input: false leaves the contributions out, which saves most of a single call's time."""

# ONNX type -> (Open Inference Protocol datatype, numpy dtype)
_TYPES: Mapping[str, tuple[str, np.dtype[Any]]] = {
    "tensor(float)": ("FP32", np.dtype("<f4")),
    "tensor(double)": ("FP64", np.dtype("<f8")),
    "tensor(uint8)": ("UINT8", np.dtype("u1")),
    "tensor(int64)": ("INT64", np.dtype("<i8")),
    "tensor(string)": ("BYTES", np.dtype(object)),
}
_ALLOWED: Mapping[str, frozenset[str]] = {
    "features": frozenset({"FP32", "FP64", "UINT8"}),
    "column": frozenset({"FP32", "FP64", "BYTES"}),
    "label": frozenset({"INT64", "BYTES"}),
    "probabilities": frozenset({"FP32", "FP64"}),
    "logits": frozenset({"FP32", "FP64"}),
    CONTRIBUTIONS: frozenset({"FP32", "FP64"}),
}


@dataclass(frozen=True)
class OnnxModel:
    """A loaded model. `run` may be called from several threads at once."""

    signature: Signature
    sha256: str
    conditions: tuple[str, ...] | None
    classes: tuple[int | str, ...] | None
    metadata: Mapping[str, str]
    session: Any

    @property
    def parameters(self) -> dict[str, Any]:
        """What the model tells of itself beside its inputs and outputs."""
        told: dict[str, Any] = {
            key.removeprefix("lcml."): value for key, value in self.metadata.items() if key.startswith("lcml.")
        }
        told.pop("feature_names", None)
        if columns := self.signature.columns:
            told["columns"] = [column.described() for column in columns]
        return {**told, "sha256": self.sha256, "explains": self.conditions is not None}

    def run(self, names: Sequence[str], *inputs: Array) -> list[Array]:
        """The named outputs for the model's inputs, of their dtypes."""
        feeds = {spec.name: array for spec, array in zip(self.signature.inputs, inputs, strict=True)}
        if CONTRIBUTIONS not in names and self._can_skip_contributions:
            feeds[_EXPLAIN] = np.array(False)
        outputs: list[Array] = self.session.run(list(names), feeds)
        return outputs

    @cached_property
    def _can_skip_contributions(self) -> bool:
        return any(node.name == _EXPLAIN for node in self.session.get_overridable_initializers())


def load_model(
    path: Path, name: str, version: str, intra_op_threads: int, files: Mapping[str, bytes] | None = None
) -> OnnxModel:
    """Read, check and try out a model file with its sidecar. files: what `read_files` gave, where they have been read.

    Raises ModelError, naming the file, where it is no ONNX, breaks the promise above, or fails on 0, 1 or 2 zero rows.
    """
    try:
        return _load(path, read_files(path) if files is None else files, name, version, intra_op_threads)
    except ModelError:
        raise
    except Exception as error:  # a file can hold anything: brackets nested too deeply, sizes beyond the memory, ...
        raise ModelError(f"{path} cannot be served: {_first_line(error)}; export the model again") from error


def _load(path: Path, files: Mapping[str, bytes], name: str, version: str, intra_op_threads: int) -> OnnxModel:
    content, options = files[path.name], _session_options(intra_op_threads)
    try:
        # without what it falls back to: it would print that it tries again
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:  # onnxruntime has no common base
        raise ModelError(f"{path} is not a model that onnxruntime can load: {_first_line(error)}") from error
    metadata = dict(session.get_modelmeta().custom_metadata_map)
    columns = _columns(path, metadata, [node.name for node in session.get_inputs()])
    inputs = tuple(_spec(path, node, "column" if columns else "features") for node in session.get_inputs())
    for spec, node in zip(inputs, session.get_inputs(), strict=True):
        if len(spec.shape) != 2 or spec.shape[0] != -1 or spec.shape[1] < 1 or (columns and spec.shape[1] > 1):
            expected = "(batch, 1)" if columns else "(batch, n_features)"
            raise ModelError(f"{path}: expected an input of shape {expected}, found {node.shape}")
    n_features = sum(spec.shape[1] for spec in inputs)
    if n_features > _MAX_FEATURES:
        raise ModelError(f"{path}: expected at most {_MAX_FEATURES} features, found {n_features}")
    names = [node.name for node in session.get_outputs()]
    if missing := [name for name in PREDICTIONS[:2] if name not in names]:
        raise ModelError(f"{path}: expected outputs label and probabilities, found {names}; {missing[0]} is missing")
    outputs = _try_out(path, session, inputs)
    widths = {spec.name: spec.shape[-1] for spec in outputs}
    classes = _json_list(path, metadata, "lcml.classes", widths["probabilities"])
    named = _json_list(path, metadata, "lcml.feature_names", n_features)
    feature_names = None if named is None else tuple(str(feature) for feature in named)
    return OnnxModel(
        signature=Signature(name, version, inputs, outputs, feature_names, columns, "lcml.missing" in metadata),
        sha256=hashlib.sha256(content).hexdigest(),
        conditions=_conditions(path, files, widths.get(CONTRIBUTIONS)),
        classes=classes,
        metadata=MappingProxyType(metadata),
        session=session,
    )


def _session_options(intra_op_threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = intra_op_threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    # Idle threads of several sessions must not burn the cores that the others need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Weights in files of their own, which nobody has checked, would be looked for in the current directory.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    return options


def _spec(path: Path, node: Any, role: str) -> TensorSpec:
    datatype, dtype = _TYPES.get(node.type, (node.type, np.dtype(object)))
    if datatype not in _ALLOWED[role]:
        raise ModelError(f"{path}: {node.name} is {node.type}; expected one of {', '.join(sorted(_ALLOWED[role]))}")
    shape = tuple(size if isinstance(size, int) else -1 for size in node.shape)
    return TensorSpec(node.name, datatype, dtype, shape)


def _try_out(path: Path, session: Any, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Specs of the known outputs, with the widths that a run shows."""
    specs = [_spec(path, node, node.name) for node in session.get_outputs() if node.name in _ALLOWED]
    for n_rows in (0, 1, 2):
        zeros = {
            spec.name: np.full((n_rows, spec.shape[1]), "" if spec.datatype == "BYTES" else 0, spec.dtype)
            for spec in inputs
        }
        try:
            arrays = session.run([spec.name for spec in specs], zeros)
        except Exception as error:
            raise ModelError(f"{path} fails on a batch of {n_rows} rows: {_first_line(error)}") from error
        for spec, array in zip(specs, arrays, strict=True):
            n_axes = 1 if spec.name == "label" else 2
            if array.ndim != n_axes or len(array) != n_rows:
                raise ModelError(
                    f"{path}: {spec.name} has shape {array.shape} for {n_rows} rows; "
                    f"expected {n_axes} axes, the first of them the batch"
                )
    return tuple(replace(spec, shape=(-1, *array.shape[1:])) for spec, array in zip(specs, arrays, strict=True))


def _columns(path: Path, metadata: Mapping[str, str], names: Sequence[str]) -> tuple[Column, ...]:
    """Of a table model with an input per column, in the order of the inputs; none of one that takes a matrix."""
    told = _json_list(path, metadata, "lcml.columns", None)
    if told is None or list(names) == ["features"]:
        if len(names) != 1:
            raise ModelError(f"{path}: expected one input, found {list(names)}; export with lcml export")
        return ()
    try:
        columns = tuple(map(Column.from_json, told))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{path}: metadata lcml.columns are damaged: {error!r}; export the model again") from error
    if [column.name for column in columns] != list(names):
        raise ModelError(f"{path}: metadata lcml.columns and the inputs differ; export the model again")
    return columns


def _json_list(path: Path, metadata: Mapping[str, str], key: str, length: int | None) -> tuple[Any, ...] | None:
    if key not in metadata:
        return None
    try:
        values = json.loads(metadata[key])
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: metadata {key} is not JSON: {error}") from error
    if not isinstance(values, list) or (length is not None and len(values) != length):
        raise ModelError(
            f"{path}: metadata {key} should be a list{f' of {length}' * (length is not None)}; export the model again"
        )
    return tuple(values)


def _conditions(path: Path, files: Mapping[str, bytes], n_contributions: int | None) -> tuple[str, ...] | None:
    sidecar = next((path.with_name(name) for name in files if name != path.name), None)
    if n_contributions is None or sidecar is None:
        return None
    try:
        conditions = json.loads(files[sidecar.name])["conditions"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f'{sidecar} is not {{"conditions": [...]}}: {error!r}; export the model again') from error
    if not isinstance(conditions, list) or [type(condition) for condition in conditions] != [str] * n_contributions:
        raise ModelError(
            f"{sidecar}: conditions should be {n_contributions} texts, one per contribution of {path.name}; "
            "the two belong to different exports"
        )
    return tuple(conditions)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0][:_MESSAGE]
