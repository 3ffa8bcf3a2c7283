"""`export_model`: compile, build, check, write."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import lcml
from lcml.data.raw import default_names
from lcml.errors import SettingsError
from lcml.formats.model_file import model_parts
from lcml.model.head import THRESHOLD
from lcml.model.model import LogisticCircuit
from lcml_export import explanation, head, packaging, profiles
from lcml_export.compiled import CompiledModel, compile_model
from lcml_export.graph import ML_DOMAIN, Graph
from lcml_export.input_types import AUTO
from lcml_export.inputs import TEXT, Inputs, chosen_inputs, described
from lcml_export.profiles import Profile, profile_named
from lcml_export.rounding import FLOAT32, Precision, chosen_precision
from lcml_export.verification import Check, Rounding, rounding_of, verify

MIN_OPSET, DEFAULT_OPSET, MAX_OPSET = 16, 18, 22
"""Opsets of ai.onnx an export may ask for; the default is what runtimes of 2023 and later read."""

EQUAL_TEXT_OPSET = 19
"""The first one whose Equal compares text, which a profile without ai.onnx.ml needs for categories."""

ML_OPSET = 3
_INT64 = np.iinfo(np.int64)
MAX_BATCH_SIZE = 4096
"""What config.pbtxt allows in one request."""


@dataclass(frozen=True)
class ExportReport:
    """What was exported, where to, and what the self-check found (no checks: it was switched off).

    n_features: those that carry weights; n_terms, n_products, n_layers: the compiled programs, 0 without one.
    precision: of the weights; rounding: what integers change, None of float32.
    """

    path: Path
    profile: str
    opset: int
    inputs: str
    input_dtype: str
    n_features: int
    n_terms: int
    n_products: int
    n_layers: int
    n_bytes: int
    checks: tuple[Check, ...]
    precision: Precision = FLOAT32
    rounding: Rounding | None = None

    def lines(self) -> list[str]:
        program = f"{self.n_terms} terms, {self.n_products} products in {self.n_layers} layers"
        of_inputs = f"input {self.input_dtype}" if self.inputs == "matrix" else "an input per column"
        weights = "" if self.precision == FLOAT32 else f"weights {self.precision}, "
        lines = [
            f"{self.path}: profile {self.profile}, opset {self.opset}, {of_inputs}, {weights}{self.n_bytes} bytes",
            f"{self.n_features} features -> {program if self.n_layers else 'passes over the circuit'}",
        ]
        for runtime in dict.fromkeys(check.runtime for check in self.checks):
            checks = [check for check in self.checks if check.runtime == runtime]
            logit, probability = (max(getattr(c, f"{what}_error") for c in checks) for what in ("logit", "probability"))
            errors = f"largest error of a logit {logit:.2g}, of a probability {probability:.2g}"
            lines.append(f"{runtime}: {len(checks)} checks passed, {errors}, labels equal")
        return lines if self.rounding is None else [*lines, self.rounding.line]

    def as_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "path": str(self.path)}


def export_model(
    model: Any,
    path: str | Path,
    *,
    profile: str = "auto",
    inputs: str | None = None,
    input_dtype: str = AUTO,
    logits: bool = False,
    explain: bool = False,
    opset: int | None = None,
    precision: str = FLOAT32,
    name: str = "lcml",
    version: int = 1,
    feature_names: Sequence[str] | None = None,
    source_sha256: str | None = None,
    self_check: bool = True,
) -> ExportReport:
    """Write `model` as ONNX: to the file `path` if that ends in .onnx, else to path/name/version/model.onnx.

    model: or a fitted `lcml.LogisticCircuitClassifier`.

    Input `features` (batch, n_features), raw, of type `input_dtype`: float32, uint8 or float64, or by "auto" float32
    where it keeps what the encoder tells apart, else float64; of a table by default (inputs: columns, else matrix) an
    input (batch, 1) per column and named as it: float32 or float64 for a number, float64 for a date, in days since
    1970-01-01, string for a category or ordinal, NaN or "" for a gap. Outputs `label` (batch,) int64 or string,
    `probabilities` (batch, n_classes), with `logits` the logits (batch, n_sets), with `explain` the contributions and a
    sidecar that says what each is.

    precision: of the weights; int16 and int8 are integers with a scale per set, compared with float32
    (`Rounding`), which is compared with the model. feature_names: for the sidecar and the metadata, by default x0, x1,
    ...; source_sha256: hash of the model's file, by default of its content.

    Raises SettingsError for a bad option, CircuitError where the profile cannot serve the circuit, OutputError where
    the self-check fails (nothing is written then) or the files cannot be written.
    """
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)  # of an estimator that was fitted to a data frame
    model = _circuit_of(model)
    feature_names = model.encoder.names or feature_names
    chosen = profile_named(profile)
    _check_options(model, feature_names)
    place = packaging.place_of(path, name, version)
    names = list(default_names(model.encoder.n_features) if feature_names is None else feature_names)
    taken = dataclasses.replace(
        chosen_inputs(model.encoder, inputs, input_dtype, names), keeps_gaps=model.missing is not None
    )
    opset = _chosen_opset(opset, TEXT in taken.columns and not chosen.operators.ml)
    compiled = compile_model(model, passes=chosen.passes)
    programs = compiled.programs
    of_weights = chosen_precision(precision)

    def built(precision: Precision) -> tuple[onnx.ModelProto, bytes]:
        outputs = {"logits": logits, "explain": explain}
        proto = build(model, compiled, chosen, taken, **outputs, opset=opset, precision=precision)
        helper.set_model_props(proto, _metadata(model, taken, profile, precision, source_sha256, feature_names))
        onnx.checker.check_model(proto, full_check=True)
        return proto, proto.SerializeToString(deterministic=True)

    proto, content = built(of_weights)
    checks: tuple[Check, ...] = ()
    rounding = None
    if self_check:
        exact = content if of_weights == FLOAT32 else built(FLOAT32)[1]
        checks = verify(exact, model, taken)
        rounding = None if of_weights == FLOAT32 else rounding_of(content, exact, model, taken, of_weights)
    report = ExportReport(
        path=place.model,
        profile=profile,
        opset=opset,
        inputs=taken.kind,
        input_dtype=taken.dtype,
        n_features=model.weights.shape[1],
        n_terms=sum(int(np.any(program.weights != 0, axis=0).sum()) for program in programs),
        n_products=sum(program.n_products for program in programs),
        n_layers=sum(len(program.table) + len(program.chain) for program in programs),
        n_bytes=len(content),
        checks=checks,
        precision=of_weights,
        rounding=rounding,
    )
    sidecar = explanation.sidecar(model, names) if explain else None
    config = packaging.triton_config(proto, place.name, MAX_BATCH_SIZE)
    packaging.write(place, content, config, sidecar, report.as_json())
    return report


def build(
    model: LogisticCircuit,
    compiled: CompiledModel,
    profile: Profile,
    taken: Inputs,
    *,
    logits: bool,
    explain: bool,
    opset: int,
    precision: Precision = FLOAT32,
) -> onnx.ModelProto:
    """The ONNX model, without metadata."""
    graph = Graph(profile.operators, taken=taken.names, precision=precision)
    taken.join(graph)
    profiles.logits(graph, model, compiled, profile.layout, taken.dtype)
    codes = head.label(graph, model, "logits")
    head.probabilities(graph, model, "logits")
    label_type = TensorProto.STRING if isinstance(model.classes[0], str) else TensorProto.INT64
    outputs = [("label", label_type, []), ("probabilities", TensorProto.FLOAT, [len(model.classes)])]
    if logits:
        outputs.append(("logits", TensorProto.FLOAT, [len(model.bias)]))
    if explain:
        explanation.contributions(graph, model, codes, taken.dtype)
        outputs.append(("contributions", TensorProto.FLOAT, [model.weights.shape[1] + 1]))
    inputs = taken.declared()
    if explain and profile.operators.control_flow:
        inputs.append(helper.make_tensor_value_info(explanation.SWITCH, TensorProto.BOOL, []))
        graph.initializers.append(helper.make_tensor(explanation.SWITCH, TensorProto.BOOL, [], [True]))
    values = [helper.make_tensor_value_info(output, kind, ["batch", *shape]) for output, kind, shape in outputs]
    proto = helper.make_model(
        helper.make_graph(graph.nodes, "logistic_circuit", inputs, values, graph.initializers, _DOCUMENTATION),
        opset_imports=[helper.make_opsetid("", opset)] + [helper.make_opsetid(ML_DOMAIN, ML_OPSET)] * graph.uses_ml,
        producer_name="lcml",
        producer_version=lcml.__version__,
        doc_string=_DOCUMENTATION,
    )
    proto.ir_version = helper.find_min_ir_version_for(proto.opset_import)
    return proto


_DOCUMENTATION = """A logistic circuit (Liang & Van den Broeck, AAAI 2019), flattened.
features, or an input per column: raw examples, the encoder is inside. label: the class predicted, the most probable
one, or of two the second where its probability is above the metadata lcml.threshold. probabilities: by class, in the
order of the metadata lcml.classes. logits: the weight functions. contributions: what every feature adds to the
predicted class's logit, the bias last."""


def _circuit_of(model: Any) -> LogisticCircuit:
    """The model itself, or that of a fitted estimator."""
    found = getattr(model, "model_", model)
    if not isinstance(found, LogisticCircuit):
        message = f"found a {type(model).__name__}: expected a LogisticCircuit or a LogisticCircuitClassifier after fit"
        raise SettingsError(message)
    return found


def _check_options(model: LogisticCircuit, feature_names: Sequence[str] | None) -> None:
    if model.missing is not None and model.missing.policy == "expected":
        raise SettingsError(
            "missing: the policy expected has no ONNX graph, since it runs a distribution over the circuit for every "
            "example; train with --missing prior, or refuse, to export"
        )
    for label in model.classes:
        if isinstance(label, int) and not _INT64.min <= label <= _INT64.max:
            raise SettingsError(f"class {label}: ONNX has no whole number beyond {_INT64.max}; train on labels of text")
    if feature_names is not None and len(feature_names) != model.encoder.n_features:
        message = f"expected {model.encoder.n_features} feature names, one per feature, found {len(feature_names)}"
        raise SettingsError(message)


def _chosen_opset(asked: int | None, compares_text: bool) -> int:
    least = EQUAL_TEXT_OPSET if compares_text else MIN_OPSET
    opset = max(least, DEFAULT_OPSET) if asked is None else asked
    if not least <= opset <= MAX_OPSET:
        why = ": this profile compares a table's text by Equal" if compares_text else ""
        raise SettingsError(f"opset {opset}: expected {least} to {MAX_OPSET}{why}")
    return opset


def _metadata(
    model: LogisticCircuit,
    taken: Inputs,
    profile: str,
    precision: Precision,
    source_sha256: str | None,
    feature_names: Sequence[str] | None,
) -> dict[str, str]:
    metadata = {
        "lcml.version": lcml.__version__,
        "lcml.profile": profile,
        "lcml.classes": json.dumps(list(model.classes)),
        "lcml.encoder": model.encoder.kind,
        "lcml.link": model.link,
        "lcml.n_features": str(model.encoder.n_features),
        "lcml.n_elements": str(model.n_elements),
        "lcml.n_parameters": str(model.n_parameters),
        "lcml.source_sha256": source_sha256 or content_sha256(model),
    }
    if precision != FLOAT32:
        metadata["lcml.precision"] = precision
    if model.missing is not None:
        metadata["lcml.missing"] = model.missing.policy
    if columns := described(taken):
        metadata["lcml.columns"] = json.dumps(columns)
    if model.threshold != THRESHOLD:
        metadata["lcml.threshold"] = repr(model.threshold)
    if isinstance(told := model.provenance.get("reference"), dict):
        metadata["lcml.reference"] = json.dumps(told)
    return metadata | ({"lcml.feature_names": json.dumps(list(feature_names))} if feature_names is not None else {})


def content_sha256(model: LogisticCircuit) -> str:
    """A hash of everything that makes the model's function: equal models have equal hashes."""
    content, arrays = model_parts(model)
    content.pop("provenance")
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for key in sorted(arrays):
        digest.update(f"{key} {arrays[key].dtype.str} {arrays[key].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[key]).tobytes())
    return digest.hexdigest()
