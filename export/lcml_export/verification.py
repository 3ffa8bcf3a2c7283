"""Verification: the exported bytes, run by onnxruntime and by ONNX's reference, against lcml itself."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import get_backend
from lcml.errors import MissingDependencyError, OutputError
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoding import Encoder
from lcml.model.head import margins
from lcml.model.model import LogisticCircuit
from lcml_export.input_types import ROUNDING, InputType, float32_errors
from lcml_export.inputs import Inputs
from lcml_export.rounding import Precision

BATCHES = (0, 1, 2, 127, 128, 129, 1000)
REFERENCE_BATCHES = (0, 1, 2, 129)
"""The reference evaluator is slow; a tile and a bit more shows what it can show."""

WINDOW_BATCHES, WINDOW_REFERENCE = BATCHES[:-1], 17
"""With windows an example has hundreds of positions and a tile a few examples: fewer show as much."""

REFERENCE_SINCE = (1, 23)
"""The first release of onnx whose reference evaluator is right: earlier ones lose rows in Scan, or fail on none."""

MAX_SUM = 1e3
"""Of the largest sum of |weight * feature|, as much counts; logits may differ by 1e-6 in any case."""

ROOT_OF_ROUNDING = float(np.sqrt(np.finfo(np.float32).eps))
"""What a square root makes of one rounding of a flow that should be 0."""

PROBABILITY_TOLERANCE = 1e-4

ROUNDING_TOLERANCE: Mapping[Precision, float] = {"int16": 0.01, "int8": 0.5}
"""How far rounding weights to integers may move a probability: what is more has weights that no one scale suits."""

_MARGIN = 0.1  # random inputs go beyond the encoder's range by this share of it on either side
_ZEROS, _GAPS = 0.8, 0.2  # shares of real inputs that are lowest, and of close ones that are missing where they may be
_FINITE = (np.finfo(np.float64).min, np.finfo(np.float64).max)
_AT_ONCE = 64  # examples that lcml computes at once: with windows, each takes megabytes

Outputs = Mapping[str, NDArray[Any]]
Run = Callable[[Mapping[str, NDArray[Any]]], Outputs]


@dataclass(frozen=True)
class Check:
    """One runtime on one kind of input and batch size: largest errors against lcml in double precision.

    label_errors counts the labels that differ although the logits are further apart than the tolerance.
    """

    runtime: str
    inputs: str
    batch: int
    logit_error: float
    probability_error: float
    contribution_error: float
    label_errors: int
    tolerance: float

    @property
    def passed(self) -> bool:
        close = self.logit_error <= self.tolerance and self.contribution_error <= self.tolerance
        return close and self.probability_error <= PROBABILITY_TOLERANCE and not self.label_errors


def verify(content: bytes, model: LogisticCircuit, inputs: Inputs, seed: int = 0) -> tuple[Check, ...]:
    """Run the exported model `content` on random, Boolean, zero, one, real and close inputs in all BATCHES, one with
    windows in WINDOW_BATCHES.

    lcml gets the inputs in double precision, the graph in its own types.

    Raises OutputError naming the first check that fails, MissingDependencyError without onnxruntime.
    """
    exposed = onnx.load_from_string(content)
    if all(output.name != "logits" for output in exposed.graph.output):
        value = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", len(model.bias)])
        exposed.graph.output.append(value)
    runs = {"onnxruntime": _onnxruntime(exposed)}
    if has_reference():
        runs["reference"] = _reference(exposed)
    checks, tolerance = [], _tolerance(model)
    most = WINDOW_REFERENCE if _has_windows(model) else max(REFERENCE_BATCHES)
    for kind, features in example_inputs(model, inputs, seed):
        logits, feeds = _reference_logits(model, features), inputs.feeds(features)
        all_batches = [batch for batch in BATCHES if batch <= len(features)] if kind == "random" else [len(features)]
        few = sorted({min(batch, most) for batch in all_batches if batch in REFERENCE_BATCHES})
        for runtime, batches in zip(runs, (all_batches, few), strict=False):
            for batch in batches:
                given = {name: values[:batch] for name, values in feeds.items()}
                checks.append(_compare(runtime, kind, model, runs[runtime](given), logits[:batch], tolerance))
    for check in checks:
        if not check.passed:
            raise OutputError(
                f"not written: the exported graph differs from the model in {check.runtime} on {check.inputs} inputs, "
                f"batch {check.batch}: logits by {check.logit_error:.3g} (tolerance {check.tolerance:.3g}), "
                f"probabilities by {check.probability_error:.3g}, {check.label_errors} labels; try the profile 'flows'"
            )
    return tuple(checks)


@dataclass(frozen=True)
class Rounding:
    """What weights of integers change of the same graph with float32 weights, on the examples of the self-check.

    probability_error: the largest difference, at most `tolerance`; labels_changed: of n_examples.
    """

    precision: str
    n_examples: int
    probability_error: float
    labels_changed: int
    tolerance: float

    @property
    def line(self) -> str:
        """A sentence."""
        return (
            f"{self.precision}: probabilities within {self.probability_error:.2g} of float32 weights (at most "
            f"{self.tolerance:g}), {self.labels_changed} of {self.n_examples} labels changed"
        )


def rounding_of(
    content: bytes, exact: bytes, model: LogisticCircuit, inputs: Inputs, precision: Precision, seed: int = 0
) -> Rounding:
    """Compare the graph `content`, whose weights are integers, with `exact`, whose weights are float32, on the inputs
    of `verify`. Raises OutputError where a probability is further off than ROUNDING_TOLERANCE."""
    runs = [_onnxruntime(onnx.load_from_string(each)) for each in (content, exact)]
    n_examples, error, changed = 0, 0.0, 0
    for _, features in example_inputs(model, inputs, seed):
        found, expected = (run(inputs.feeds(features)) for run in runs)
        n_examples += len(found["label"])
        error = max(error, _error(found["probabilities"], expected["probabilities"].astype(np.float64)))
        changed += int((found["label"] != expected["label"]).sum())
    rounding = Rounding(precision, n_examples, error, changed, ROUNDING_TOLERANCE[precision])
    if not error <= rounding.tolerance:
        raise OutputError(f"not written: {rounding.line}; choose a finer precision")
    return rounding


def example_inputs(model: LogisticCircuit, inputs: Inputs, seed: int) -> Iterator[tuple[str, Any]]:
    """Raw inputs of every kind: random (beyond the encoder's range too), and 129 or 2 Boolean, zero, one, real, close
    ones; these are neighbours of their type in the middle of the range, where a threshold is.

    Of a table random, Boolean, real and close ones, with gaps and unknown categories; close are neighbours of knots.
    """
    generator = np.random.default_rng(seed)
    encoder, n, input_type = model.encoder, model.encoder.n_features, inputs.dtype
    if isinstance(encoder, ColumnsEncoder):
        yield from _tables(encoder, inputs, generator)
        return
    n_random = max(WINDOW_BATCHES if _has_windows(model) else BATCHES)
    some = (max(REFERENCE_BATCHES), n)
    sparse = np.where(generator.random(some) < _ZEROS, 0.0, generator.random(some))
    middle = encoder.inputs_at(np.full(some, 0.5)).astype(input_type)
    if input_type != "uint8":
        middle = np.nextafter(middle, generator.choice(np.array([-np.inf, 0, np.inf], middle.dtype), some))
    kinds = {
        "random": encoder.inputs_at(generator.uniform(-_MARGIN, 1 + _MARGIN, (n_random, n))),
        "Boolean": encoder.inputs_at(generator.integers(0, 2, some).astype(np.float64)),
        "zero": np.zeros((2, n)),
        "one": np.ones((2, n)),
        "real": encoder.inputs_at(sparse),
        "close": middle,
    }
    if model.missing is not None and input_type != "uint8":
        kinds["missing"] = np.where(generator.random(some) < _GAPS, np.nan, encoder.inputs_at(sparse))
    for kind, values in kinds.items():
        yield kind, _given(encoder, np.clip(values, *_FINITE), input_type)


def _tables(encoder: ColumnsEncoder, inputs: Inputs, generator: np.random.Generator) -> Iterator[tuple[str, Any]]:
    n, n_rows = encoder.n_features, max(REFERENCE_BATCHES)
    close = np.empty((n_rows, n))
    for j, column in enumerate(encoder.columns):
        if column.is_text:  # with an unknown one, where there may be one
            stop = len(column.categories) + (column.kind == "category" or column.gaps)
            close[:, j] = generator.integers(0, stop, n_rows)
        else:
            knots = generator.choice([*column.knots, *column.steps], n_rows).astype(inputs.types[j])
            close[:, j] = np.nextafter(knots, generator.choice(np.array([-np.inf, 0, np.inf], knots.dtype), n_rows))
        close[generator.random(n_rows) < _GAPS * (column.gaps or inputs.keeps_gaps), j] = np.nan
    sparse = np.where(generator.random((n_rows, n)) < _ZEROS, 0.0, generator.random((n_rows, n)))
    yield "random", encoder.inputs_at(generator.uniform(-_MARGIN, 1 + _MARGIN, (max(BATCHES), n)))
    yield "Boolean", encoder.inputs_at(generator.integers(0, 2, (n_rows, n)).astype(np.float64))
    yield "real", encoder.inputs_at(sparse)
    yield "close", encoder.examples(close)


def _given(encoder: Encoder, values: FloatArray, input_type: InputType) -> FloatArray:
    """What `values` are for a caller who has only `input_type`: whole numbers, or float32 for a feature that float32
    holds by the way its encoder was fitted; all others keep what a cast will lose."""
    if input_type == "uint8":
        return np.clip(np.rint(values), 0, 255)
    held = (float32_errors(encoder) == 0) & (input_type == "float32")
    return np.where(held, values.astype(input_type), values)


def has_reference() -> bool:
    """Whether the reference evaluator of the onnx at hand can be believed."""
    return tuple(map(int, onnx.__version__.split(".")[:2])) >= REFERENCE_SINCE


def _has_windows(model: LogisticCircuit) -> bool:
    return any(part.view.n_positions > 1 for part in model.parts)


def _reference_logits(model: LogisticCircuit, features: Any) -> NDArray[np.float64]:
    """lcml's logits in double precision, a few examples at a time; by its kernels where windows make numpy slow."""
    backend = get_backend("numpy")
    if _has_windows(model):
        with suppress(MissingDependencyError):
            backend = get_backend("numba")
    slices = [features[first : first + _AT_ONCE] for first in range(0, len(features), _AT_ONCE)]
    with backend.single_threaded_blas():  # a few rows are no work for threads that wait for each other
        return np.concatenate([model.logits(rows, backend, precision="float64") for rows in slices])


def _tolerance(model: LogisticCircuit) -> float:
    """How far logits may be apart; errors of square roots near 0 are large, but independent: their squares add up."""
    largest = float(np.abs(model.weights).sum(axis=1).max(initial=0)) + float(np.abs(model.bias).max())
    roots = [weights for part, weights in zip(model.parts, model.flow_weights, strict=True) if part.view.root]
    of_roots = sum((np.square(weights).sum(axis=(1, 2)) for weights in roots), start=np.zeros(len(model.bias)))
    rounding = ROUNDING * min(largest, MAX_SUM)
    return 1e-6 + rounding + ROOT_OF_ROUNDING * float(np.sqrt(of_roots.max()))


def _compare(
    runtime: str, kind: str, model: LogisticCircuit, found: Outputs, logits: NDArray[np.float64], tolerance: float
) -> Check:
    codes = model.codes(logits)
    classes = np.asarray(model.classes)
    best = np.sort(logits, axis=1)
    margin = np.abs(margins(logits, model.threshold)) if len(classes) == 2 else best[:, -1] - best[:, -2]
    wrong = (np.asarray(found["label"]) != classes[codes]) & (margin > 2 * tolerance)
    contribution_error = 0.0
    if "contributions" in found:
        sets = codes if logits.shape[1] > 1 else np.zeros(len(codes), dtype=np.int64)
        sums = found["contributions"].astype(np.float64).sum(axis=1)
        explained = np.take_along_axis(logits, sets[:, None], axis=1)[:, 0]
        contribution_error = _error(sums[margin > 2 * tolerance], explained[margin > 2 * tolerance])
    return Check(
        runtime=runtime,
        inputs=kind,
        batch=len(logits),
        logit_error=_error(found["logits"], logits),
        probability_error=_error(found["probabilities"], model.head.probabilities(logits)),
        contribution_error=contribution_error,
        label_errors=int(wrong.sum()),
        tolerance=tolerance,
    )


def _error(found: NDArray[Any], expected: NDArray[np.float64]) -> float:
    if found.shape != expected.shape:
        return float("inf")
    error = np.abs(found.astype(np.float64) - expected)
    return float(np.where(np.isnan(error), np.inf, error).max(initial=0))


def _onnxruntime(model: onnx.ModelProto) -> Run:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError("onnxruntime", "export", "the self-check of an export") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # errors: it warns of the input that switches explanations off
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True))


def _reference(model: onnx.ModelProto) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    names = [output.name for output in model.graph.output]

    def run(feeds: Mapping[str, NDArray[Any]]) -> Outputs:
        with np.errstate(over="ignore", invalid="ignore"):
            return dict(zip(names, evaluator.run(None, dict(feeds)), strict=True))

    return run
