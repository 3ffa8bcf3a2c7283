"""Encoders: how a raw example becomes q in [0, 1]^d, the probabilities of the circuit's variables.

    scale     q = (min(max(x, low), high) - low) / (high - low), per column; a column with low = high gives 0
    boolean   q = 1 where x >= threshold, else 0   (Liang & Van den Broeck 2019, section 5: mean + 0.05 std)

An encoder is part of the model, so that a model always takes raw features. `lcml.inputs.channels` has the encoder that
makes several channels of an image, upon one of these two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lcml.errors import DataError, FormatError, SettingsError
from lcml.inputs.rows import Matrix, Rows, check_features, chunks, column_name

if TYPE_CHECKING:
    from lcml.inputs.channels import ChannelEncoder

EncoderKind: TypeAlias = Literal["scale", "boolean", "divide"]

BOOLEAN_STDS = 0.05
"""A pixel is 1 where it is at least this many standard deviations above its mean (the paper's value)."""


@dataclass(frozen=True, eq=False)
class ScaleEncoder:
    """q = (clip(x, low, high) - low) / (high - low); low and high are (d,) float64, a constant column gives 0.

    Raises DataError where low or high is not finite, low > high, or high - low overflows.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    kind: ClassVar[Literal["scale"]] = "scale"

    def __post_init__(self) -> None:
        _freeze(self, "low", "high")
        if self.low.shape != self.high.shape:
            raise DataError(f"low has {self.low.size} columns but high has {self.high.size}; give both one per feature")
        _check_span(self.low, self.high)

    @property
    def n_features(self) -> int:
        return self.low.size

    @property
    def n_outputs(self) -> int:
        """Probabilities per example: one per feature."""
        return self.n_features

    def encode(self, x: ArrayLike | Matrix) -> NDArray[np.float32]:
        """Probabilities (n, d), float32, C-contiguous, of raw features (n, d); DataError as `check_features`."""
        raw = check_features(x, self.n_features)
        q = np.empty(raw.shape, np.float32)
        span = self.high - self.low
        span[span == 0] = 1
        for rows in chunks(raw):
            q[rows] = (np.clip(raw[rows].astype(np.float64), self.low, self.high) - self.low) / span
        return q

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """What the model file stores; `encoder_from_arrays` is the way back."""
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False)
class BooleanEncoder:
    """q = 1 where x >= threshold, else 0; threshold is (d,) float64. Raises DataError where it is not finite."""

    threshold: NDArray[np.float64]
    kind: ClassVar[Literal["boolean"]] = "boolean"

    def __post_init__(self) -> None:
        _freeze(self, "threshold")

    @property
    def n_features(self) -> int:
        return self.threshold.size

    @property
    def n_outputs(self) -> int:
        """Probabilities per example: one per feature."""
        return self.n_features

    def encode(self, x: ArrayLike | Matrix) -> NDArray[np.float32]:
        """0 or 1 (n, d), float32, C-contiguous, of raw features (n, d); DataError as `check_features`."""
        raw = check_features(x, self.n_features)
        q = np.empty(raw.shape, np.float32)
        for rows in chunks(raw):
            q[rows] = raw[rows].astype(np.float64) >= self.threshold
        return q

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """What the model file stores; `encoder_from_arrays` is the way back."""
        return {"threshold": self.threshold}


PlainEncoder: TypeAlias = ScaleEncoder | BooleanEncoder
"""One probability per raw feature."""

Encoder: TypeAlias = Union[PlainEncoder, "ChannelEncoder"]


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows in a file, or computed when they are read, as probabilities (n, d), float32, encoded when they are read."""

    rows: Matrix
    encoder: Encoder
    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.encoder.n_outputs

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        return self.encoder.encode(self.rows[rows])


def encoded(encoder: Encoder, x: ArrayLike | Matrix) -> NDArray[np.float32] | EncodedRows:
    """Raw features as probabilities: an array of them, or of rows in a file a view that encodes what is read."""
    return EncodedRows(x, encoder) if isinstance(x, Rows) else encoder.encode(np.asarray(x))


def fit_encoder(
    kind: EncoderKind,
    x: ArrayLike | Matrix,
    divisor: float | None = None,
    *,
    shared: int = 0,
    feature_names: Sequence[str] | None = None,
) -> PlainEncoder:
    """The encoder of `kind` for training features x (n, d), an array or rows in a file; errors name columns by
    `feature_names`.

    scale: low and high are the smallest and largest value of each column, or of each of `shared` runs of columns of
    equal length where that is not 0 (the channels of images: one range for all pixels). divide: low = 0, high =
    `divisor` for all columns. boolean: threshold = mean + 0.05 standard deviations of each column.

    Raises DataError (`check_features`; no rows) and SettingsError (unknown kind; divisor missing, useless or not > 0).
    """
    if (divisor is not None) != (kind == "divide"):
        raise SettingsError(f"a divisor belongs to the encoder 'divide' and to no other; found {kind!r} and {divisor}")
    raw = check_features(x, feature_names=feature_names)
    n_rows, n_features = raw.shape
    if kind == "divide":
        if divisor is None or not 0 < divisor < np.inf:
            raise SettingsError(f"the divisor must be a finite number above 0; found {divisor}")
        return ScaleEncoder(np.zeros(n_features), np.full(n_features, float(divisor)))
    if n_rows == 0:
        raise DataError("an encoder cannot be fitted on no rows; give at least one training example")
    extremes = [(part.min(axis=0), part.max(axis=0)) for part in (raw[rows] for rows in chunks(raw))]
    low = np.min([least for least, _ in extremes], axis=0).astype(np.float64)
    high = np.max([most for _, most in extremes], axis=0).astype(np.float64)
    if kind == "scale":
        _check_span(low, high, feature_names)
        if shared:
            width = n_features // shared
            low = np.repeat(low.reshape(-1, width).min(axis=1), width)
            high = np.repeat(high.reshape(-1, width).max(axis=1), width)
        return ScaleEncoder(low, high)
    if kind == "boolean":
        with np.errstate(over="ignore", invalid="ignore"):
            # Clipped, because rounding can move the mean of a constant column off the constant.
            mean = sum(raw[rows].sum(axis=0, dtype=np.float64) for rows in chunks(raw)) / n_rows
            mean = np.clip(mean, low, high)
            squares = sum(np.square(raw[rows] - mean).sum(axis=0) for rows in chunks(raw))
            threshold = mean + BOOLEAN_STDS * np.sqrt(squares / n_rows)
        _check_finite("threshold", threshold, feature_names)
        return BooleanEncoder(threshold)
    raise SettingsError(f"unknown encoder {kind!r}; choose scale, boolean or divide")


def encoder_from_arrays(kind: str, arrays: Mapping[str, ArrayLike]) -> PlainEncoder:
    """The plain encoder whose `kind` and `arrays()` these are; FormatError where they describe none."""
    wanted = {"scale": {"low", "high"}, "boolean": {"threshold"}}.get(kind)
    if wanted is None or set(arrays) != wanted:
        raise FormatError(
            f"not an encoder: kind {kind!r} with the arrays {sorted(arrays)}; expected 'scale' with low and high or "
            "'boolean' with threshold; the model file is damaged or newer than this lcml"
        )
    try:
        parts = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
        return ScaleEncoder(**parts) if kind == "scale" else BooleanEncoder(**parts)
    except ValueError as error:
        raise FormatError(f"encoder {kind!r}: {error}") from error


def _check_span(
    low: NDArray[np.float64], high: NDArray[np.float64], feature_names: Sequence[str] | None = None
) -> None:
    with np.errstate(over="ignore"):
        wrong = np.flatnonzero((low > high) | ~np.isfinite(high - low))
    if wrong.size:
        j = int(wrong[0])
        raise DataError(
            f"{column_name(j, feature_names)} cannot be scaled from [{low[j]}, {high[j]}]: low must not exceed high "
            "and their difference must be finite; rescale that column"
        )


def _check_finite(name: str, values: NDArray[np.float64], feature_names: Sequence[str] | None = None) -> None:
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise DataError(
            f"{column_name(int(wrong[0]), feature_names)} has the {name} {values[wrong[0]]}; expected a finite number: "
            "rescale that column"
        )


def _freeze(encoder: PlainEncoder, *names: str) -> None:
    """Replace the named fields by read-only float64 copies, one finite value per column."""
    for name in names:
        array = np.array(getattr(encoder, name), np.float64)
        if array.ndim != 1:
            raise DataError(f"{name} must hold one finite number per feature; found shape {array.shape}")
        _check_finite(name, array)
        array.setflags(write=False)
        object.__setattr__(encoder, name, array)
