"""Encoders: how a raw example becomes q in [0, 1]^d, the probabilities of the circuit's variables.

    scale     q = (min(max(x, low), high) - low) / (high - low), per column; a column with low = high gives 0
    boolean   q = 1 where x >= threshold, else 0   (Liang & Van den Broeck 2019, section 5: mean + 0.05 std)

An encoder is part of the model, so that a model always takes raw features. `lcml.channels` has the encoder that makes
several channels of an image, upon one of these two.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lcml.errors import DataError, FormatError, SettingsError

if TYPE_CHECKING:
    from lcml.channels import ChannelEncoder

EncoderKind: TypeAlias = Literal["scale", "boolean", "divide"]

BOOLEAN_STDS = 0.05
"""A pixel is 1 where it is at least this many standard deviations above its mean (the paper's value)."""

CHUNK_BYTES = 1 << 23
"""Work on so many bytes of float64 at a time: no copy of the whole matrix is made."""


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
        with np.errstate(over="ignore"):
            wrong = np.flatnonzero((self.low > self.high) | ~np.isfinite(self.high - self.low))
        if wrong.size:
            j = int(wrong[0])
            raise DataError(
                f"column {j} cannot be scaled from [{self.low[j]}, {self.high[j]}]: low must not exceed high and "
                "their difference must be finite; rescale that column"
            )

    @property
    def n_features(self) -> int:
        return self.low.size

    @property
    def n_outputs(self) -> int:
        """Probabilities per example: one per feature."""
        return self.n_features

    def encode(self, x: ArrayLike) -> NDArray[np.float32]:
        """Probabilities (n, d), float32, C-contiguous, of raw features (n, d); DataError as `check_features`."""
        raw = check_features(x, self.n_features)
        q = np.empty(raw.shape, np.float32)
        span = self.high - self.low
        span[span == 0] = 1
        for rows in _chunks(raw):
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

    def encode(self, x: ArrayLike) -> NDArray[np.float32]:
        """0 or 1 (n, d), float32, C-contiguous, of raw features (n, d); DataError as `check_features`."""
        raw = check_features(x, self.n_features)
        q = np.empty(raw.shape, np.float32)
        for rows in _chunks(raw):
            q[rows] = raw[rows].astype(np.float64) >= self.threshold
        return q

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """What the model file stores; `encoder_from_arrays` is the way back."""
        return {"threshold": self.threshold}


PlainEncoder: TypeAlias = ScaleEncoder | BooleanEncoder
"""One probability per raw feature."""

Encoder: TypeAlias = Union[PlainEncoder, "ChannelEncoder"]


def fit_encoder(kind: EncoderKind, x: ArrayLike, divisor: float | None = None, *, shared: int = 0) -> PlainEncoder:
    """The encoder of `kind` for training features x (n, d).

    scale: low and high are the smallest and largest value of each column, or of each of `shared` runs of columns of
    equal length where that is not 0 (the channels of images: one range for all pixels). divide: low = 0, high =
    `divisor` for all columns. boolean: threshold = mean + 0.05 standard deviations of each column.

    Raises DataError (`check_features`; no rows) and SettingsError (unknown kind; divisor missing, useless or not > 0).
    """
    if (divisor is not None) != (kind == "divide"):
        raise SettingsError(f"a divisor belongs to the encoder 'divide' and to no other; found {kind!r} and {divisor}")
    raw = check_features(x)
    n_rows, n_features = raw.shape
    if kind == "divide":
        if divisor is None or not 0 < divisor < np.inf:
            raise SettingsError(f"the divisor must be a finite number above 0; found {divisor}")
        return ScaleEncoder(np.zeros(n_features), np.full(n_features, float(divisor)))
    if n_rows == 0:
        raise DataError("an encoder cannot be fitted on no rows; give at least one training example")
    low, high = raw.min(axis=0).astype(np.float64), raw.max(axis=0).astype(np.float64)
    if kind == "scale":
        if shared:
            low, high = (
                np.repeat(extreme(column.reshape(shared, -1), axis=1), n_features // shared)
                for extreme, column in ((np.min, low), (np.max, high))
            )
        return ScaleEncoder(low, high)
    if kind == "boolean":
        with np.errstate(over="ignore", invalid="ignore"):
            # Clipped, because rounding can move the mean of a constant column off the constant.
            mean = np.clip(raw.mean(axis=0, dtype=np.float64), low, high)
            squares = sum(np.square(raw[rows] - mean).sum(axis=0) for rows in _chunks(raw))
            return BooleanEncoder(mean + BOOLEAN_STDS * np.sqrt(squares / n_rows))
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


def check_features(
    x: ArrayLike, n_features: int | None = None, feature_names: Sequence[str] | None = None
) -> NDArray[Any]:
    """x as a numeric array (n, d) of finite values, not copied where it is one already.

    Raises DataError where x is not numeric, not two-dimensional, not `n_features` wide, or holds NaN or infinity
    (row and column counted from 0, and the column's name where `feature_names` gives it).
    """
    try:
        raw = np.asarray(x)
    except ValueError as error:
        raise DataError(f"features must be a matrix of numbers, one row per example: {error}") from error
    if raw.dtype.kind not in "buif":
        raise DataError(
            f"features must be numbers; found an array of type {raw.dtype}: encode text as numbers or drop it"
        )
    if raw.ndim != 2:
        raise DataError(
            f"features must be a matrix (n, d), one row per example; found shape {raw.shape}: "
            "reshape a single example to (1, d), an image to a row"
        )
    if n_features is not None and raw.shape[1] != n_features:
        raise DataError(
            f"expected {n_features} features per example, found {raw.shape[1]}; give the columns trained on, in order"
        )
    if raw.dtype.kind == "f":
        for rows in _chunks(raw):
            finite = np.isfinite(raw[rows])
            if not finite.all():
                i, j = np.argwhere(~finite)[0]
                name = f" ({feature_names[j]!r})" if feature_names is not None else ""
                raise DataError(
                    f"row {rows.start + i}, column {j}{name} is {raw[rows][i, j]}; features must be finite: "
                    "fill in or drop it (rows and columns count from 0)"
                )
    return raw


def _chunks(x: NDArray[Any]) -> Iterator[slice]:
    step = max(1, CHUNK_BYTES // (8 * max(1, x.shape[1])))
    return (slice(start, start + step) for start in range(0, len(x), step))


def _freeze(encoder: PlainEncoder, *names: str) -> None:
    """Replace the named fields by read-only float64 copies, one finite value per column."""
    for name in names:
        array = np.array(getattr(encoder, name), np.float64)
        if array.ndim != 1 or not np.isfinite(array).all():
            raise DataError(f"{name} must hold one finite number per feature; found {array}: rescale the data")
        array.setflags(write=False)
        object.__setattr__(encoder, name, array)
