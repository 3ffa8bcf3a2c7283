"""The type of the graph's input: float32 where that keeps what the encoder tells apart, else float64."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from lcml.arrays import FloatArray
from lcml.errors import SettingsError
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml.inputs.encoding import Encoder

InputType: TypeAlias = Literal["float32", "uint8", "float64"]

AUTO = "auto"
"""float32, or float64 where float32 cannot hold a feature."""

ROUNDING = 64 * float(np.finfo(np.float32).eps)
"""What the self-check grants a logit for every unit of weight, and rounding a raw feature may change a probability."""


def chosen_type(encoder: Encoder, asked: str, feature_names: Sequence[str]) -> InputType:
    """The type `asked`, or what AUTO stands for.

    SettingsError where it is no type, where float32 is asked for and cannot hold a feature, and as `float32_errors`.
    """
    if asked not in (AUTO, *get_args(InputType)):
        raise SettingsError(f"unknown input type {asked!r}: expected one of {AUTO}, {', '.join(get_args(InputType))}")
    errors = float32_errors(encoder)
    worst = int(errors.argmax())
    if asked == AUTO:
        return "float32" if errors[worst] <= ROUNDING else "float64"
    if asked == "float32" and errors[worst] > ROUNDING:
        raise SettingsError(
            f"input type float32 cannot hold the feature {feature_names[worst]!r}: rounding its values changes "
            f"what the encoder makes of them by up to {errors[worst]:.2g}; choose the input type {AUTO} or float64"
        )
    return cast(InputType, asked)


def float32_errors(encoder: Encoder) -> FloatArray:
    """(n_features,) the most that a probability changes where a feature, in the encoder's range, becomes a float32.

    Raises SettingsError for an encoder that has no form in ONNX.
    """
    if encoder.kind not in _ERRORS:
        raise SettingsError(f"encoder {encoder.kind!r}: expected one that ONNX can hold: {', '.join(_ERRORS)}")
    return _ERRORS[encoder.kind](encoder)


def _of_range(low: FloatArray, high: FloatArray) -> FloatArray:
    """Half the distance of neighbouring float32 at the far end of the range, in units of the range."""
    largest = np.maximum(np.abs(low), np.abs(high))
    span = high - low
    with np.errstate(over="ignore", invalid="ignore"):
        half_step = np.spacing(largest.astype(np.float32)).astype(np.float64) / 2
        error = np.minimum(half_step, span) / np.where(span > 0, span, 1)
    return np.where(np.isnan(error) & (span > 0), 1.0, np.nan_to_num(error))  # NaN: beyond all float32


def _of_thresholds(threshold: FloatArray) -> FloatArray:
    """Fitted to examples that float32 can hold, a threshold is a float32, as `BooleanEncoder.fit` rounds it."""
    with np.errstate(over="ignore"):
        return np.where(threshold == threshold.astype(np.float32), 0.0, 1.0)


def _of_columns(encoder: ColumnsEncoder) -> FloatArray:
    """As of a range between two knots, as of a threshold at a step; none of a text's places, which are small."""
    errors = [
        max(_of_range(c.knots[:-1], c.knots[1:]).max(initial=0), _of_thresholds(c.steps).max(initial=0))
        for c in encoder.columns
    ]
    return np.where([column.is_text for column in encoder.columns], 0.0, errors)


_ERRORS: Mapping[str, Callable[[Any], FloatArray]] = {
    ScaleEncoder.kind: lambda encoder: _of_range(encoder.low, encoder.high),
    BooleanEncoder.kind: lambda encoder: _of_thresholds(encoder.threshold),
    ColumnsEncoder.kind: _of_columns,
    ChannelEncoder.kind: lambda encoder: float32_errors(encoder.base),
}
"""By the encoder's kind."""
