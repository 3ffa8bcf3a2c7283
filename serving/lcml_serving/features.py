"""JSON in and out; the one check between a request's numbers and a model's input, and that of its outputs."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from lcml_serving.errors import BadRequestError, UnprocessableError
from lcml_serving.signature import Array, Signature

_OR_NULL = (bool, int, float, type(None))


def parse_json(text: bytes) -> dict[str, Any]:
    """A JSON object. Raises BadRequestError for anything else, NaN and Infinity included, which are not JSON."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise BadRequestError("the body is nested too deeply to be a request") from None
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRequestError(f"expected a JSON object, found {type(value).__name__}")
    return value


def to_json(value: Any) -> bytes:
    """Compact JSON; NaN and infinity are a bug here, checked before."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def numbers(values: Any, what: str) -> Array:
    """An array of the numbers or Booleans in nested lists, NaN for null.

    Raises UnprocessableError for anything else among them, and for ragged lists.
    """
    if not isinstance(values, list):
        raise UnprocessableError(f"{what}: expected a list, found {type(values).__name__}")
    try:
        array = np.array(values)
    except (ValueError, OverflowError, RecursionError):
        raise UnprocessableError(f"{what}: expected numbers in rows of one length, found rows that differ") from None
    if array.dtype.kind == "O" and all(type(value) in _OR_NULL for value in array.flat):
        with suppress(OverflowError):
            array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise UnprocessableError(f"{what}: expected numbers, found something else among them (a text, or too large)")
    return array


def to_features(values: Array, model: Signature, max_rows: int) -> Array:
    """`values`, (rows, n_features), in the dtype of the model's input, C-contiguous.

    Raises UnprocessableError where the shape does not fit, a value is NaN or infinite in that dtype, or an integer
    input cannot hold it exactly; the message names the row and column (from 0) of the first such value.
    """
    if values.ndim != 2 or values.shape[1] != model.n_features:
        found = list(values.shape) if values.ndim <= 8 else f"{values.ndim} axes"
        raise UnprocessableError(f"expected shape (rows, {model.n_features}), found {found}")
    check_rows(len(values), max_rows)
    dtype = model.input.dtype
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(dtype, copy=False)
    good = np.isfinite(converted) if dtype.kind == "f" else converted == values
    if model.takes_gaps and dtype.kind == "f":
        good |= np.isnan(converted)
    if not good.all():
        row, column = np.argwhere(~good)[0]
        expected = f"a finite {dtype} number" if dtype.kind == "f" else f"a whole number that {dtype} holds"
        named = "" if model.feature_names is None else f" ({model.feature_names[column]!r})"
        raise UnprocessableError(
            f"row {row}, feature {column}{named}: expected {expected}, found {values[row, column]}"
        )
    return np.require(converted, requirements=["C", "A"])


def check_rows(n_rows: int, max_rows: int) -> None:
    """Raises UnprocessableError where a request has more than `max_rows` rows: asked before numbers are converted."""
    if n_rows > max_rows:
        message = f"expected at most {max_rows} rows in a request, found {n_rows}; send several requests"
        raise UnprocessableError(message)


def check_finite(outputs: Mapping[str, Array]) -> None:
    """Raises UnprocessableError for a row whose result is NaN or infinite: JSON has no such numbers."""
    for name, array in outputs.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            row = np.argwhere(~np.isfinite(array))[0][0]
            raise UnprocessableError(f"row {row}: the model gives no finite {name} for it; it contradicts the circuit")


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
