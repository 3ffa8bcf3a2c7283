"""Plain encoders: one probability q per raw feature x.

    scale     q = (min(max(x, low), high) - low) / (high - low), per column; a column with low = high gives 0
    boolean   q = 1 where x >= threshold, else 0   (Liang & Van den Broeck 2019, section 5: mean + 0.05 std)

`lcml.inputs.channels` has the encoder that makes several channels of an image, upon one of these two.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lcml.arrays import FloatArray, frozen
from lcml.errors import DataError, FormatError, SettingsError
from lcml.inputs.encoding import Encoder, State, Words, one_by_one, short_number
from lcml.inputs.rows import Matrix, check_features, check_finite, chunks, column_name, row_sum

EncoderKind: TypeAlias = Literal["auto", "columns", "scale", "boolean", "divide"]

BOOLEAN_STDS = 0.05
"""A pixel is 1 where it is at least this many standard deviations above its mean (the paper's value)."""


@dataclass(frozen=True, eq=False)
class PlainEncoder(Encoder):
    """One probability per raw feature, told by the fields: finite numbers (d,), kept as read-only float64.

    Raises DataError where a field is none of that.
    """

    def __post_init__(self) -> None:
        for name, values in self.state().items():
            array = frozen(values, np.float64)
            if array.ndim != 1:
                raise DataError(f"{name} must hold one finite number per feature; found shape {array.shape}")
            _check_finite(name, array)
            object.__setattr__(self, name, array)

    @classmethod
    @abstractmethod
    def fit(
        cls,
        x: Matrix,
        *,
        shared: int = 0,
        feature_names: Sequence[str] | None = None,
        weights: FloatArray | None = None,
    ) -> Self:
        """The encoder for training features; see `fit_encoder`."""

    @abstractmethod
    def _probabilities(self, x: FloatArray) -> NDArray[Any]:
        """Of checked features (n, d), in double precision."""

    @abstractmethod
    def _range(self) -> tuple[FloatArray, FloatArray]:
        """(d,) values between which an encoded feature changes."""

    @property
    def n_features(self) -> int:
        first: FloatArray = getattr(self, fields(self)[0].name)
        return first.size

    @property
    def n_outputs(self) -> int:
        return self.n_features

    def encode(self, x: ArrayLike | Matrix, *, gaps: bool = False) -> NDArray[np.float32]:
        """Probabilities (n, d), float32, C-contiguous, of raw features (n, d), with `gaps` NaN for NaN; DataError as
        `check_features`, infinity included."""
        raw = check_features(x, self.n_features, gaps=gaps)
        q = np.empty(raw.shape, np.float32)
        for rows in chunks(raw):
            values = raw[rows].astype(np.float64)
            q[rows] = self._probabilities(values)
            if gaps:
                check_finite(np.where(np.isnan(values), 0, values), rows.start)
                q[rows][np.isnan(values)] = np.nan
        return q

    def variable_names(self, feature_names: Sequence[str]) -> tuple[str, ...]:
        return tuple(feature_names)

    def inputs_at(self, shares: FloatArray) -> FloatArray:
        low, high = self._range()
        return low + shares * (high - low)

    def state(self) -> State:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_state(cls, state: State) -> Self:
        wanted = [field.name for field in fields(cls)]
        if set(state) != set(wanted):
            found = f"expected the arrays {wanted}, found {sorted(state)}"
            raise FormatError(f"{found}; the file is damaged or newer than this lcml")
        return cls(**state)


@dataclass(frozen=True, eq=False)
class ScaleEncoder(PlainEncoder):
    """q = (clip(x, low, high) - low) / (high - low); low and high are (d,) float64, a constant column gives 0.

    Raises DataError where low or high is not finite, low > high, or high - low overflows.
    """

    low: FloatArray
    high: FloatArray
    kind: ClassVar[str] = "scale"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low.shape != self.high.shape:
            raise DataError(f"low has {self.low.size} columns but high has {self.high.size}; give both one per feature")
        _check_span(self.low, self.high)

    @classmethod
    def fit(
        cls,
        x: Matrix,
        *,
        shared: int = 0,
        feature_names: Sequence[str] | None = None,
        weights: FloatArray | None = None,
    ) -> Self:
        low, high = _extremes(x)
        _check_span(low, high, feature_names)
        if shared:
            width = len(low) // shared
            low = np.repeat(low.reshape(-1, width).min(axis=1), width)
            high = np.repeat(high.reshape(-1, width).max(axis=1), width)
        return cls(low, high)

    def _probabilities(self, x: FloatArray) -> FloatArray:
        span = self.high - self.low
        span[span == 0] = 1
        return (np.clip(x, self.low, self.high) - self.low) / span

    def words(self, feature_names: Sequence[str]) -> Words:
        """'age near 90' for what is true, 'age near 17' for what is false; of shares of 1 'a' and 'not a'."""
        true, false = [], []
        for name, low, high in zip(feature_names, self.low.tolist(), self.high.tolist(), strict=True):
            is_share = (low, high) == (0, 1)
            rest = (
                f"near {short_number(high)}" if high > low else f"above {short_number(low)}"
            )  # as a constant column never is
            true.append(name if is_share else f"{name} {rest}")
            false.append(f"not {name}" if is_share else f"{name} near {short_number(low)}")
        return one_by_one(true, false)

    def _range(self) -> tuple[FloatArray, FloatArray]:
        return self.low, np.where(self.high > self.low, self.high, self.low + 1)


@dataclass(frozen=True, eq=False)
class BooleanEncoder(PlainEncoder):
    """q = 1 where x >= threshold, else 0; threshold is (d,) float64. Raises DataError where it is not finite."""

    threshold: FloatArray
    kind: ClassVar[str] = "boolean"

    @classmethod
    def fit(
        cls,
        x: Matrix,
        *,
        shared: int = 0,
        feature_names: Sequence[str] | None = None,
        weights: FloatArray | None = None,
    ) -> Self:
        low, high = _extremes(x)
        n = len(x) if weights is None else weights.sum()
        with np.errstate(over="ignore", invalid="ignore"):
            # Clipped, because rounding can move the mean of a constant column off the constant.
            mean = sum(row_sum(x[rows], weights, rows) for rows in chunks(x)) / n
            mean = np.clip(mean, low, high)
            squares = sum(row_sum(np.square(x[rows] - mean), weights, rows) for rows in chunks(x))
            threshold = mean + BOOLEAN_STDS * np.sqrt(squares / n)
        _check_finite("threshold", threshold, feature_names)
        return cls(_rounded_where_equal(threshold, x))

    def _probabilities(self, x: FloatArray) -> NDArray[np.bool_]:
        return x >= self.threshold

    def words(self, feature_names: Sequence[str]) -> Words:
        """'age >= 38.2' for what is true, 'age < 38.2' for what is false."""
        pairs = list(zip(feature_names, map(short_number, self.threshold.tolist()), strict=True))
        return one_by_one([f"{name} >= {t}" for name, t in pairs], [f"{name} < {t}" for name, t in pairs])

    def _range(self) -> tuple[FloatArray, FloatArray]:
        return self.threshold - 1, self.threshold + 1


PLAIN_ENCODERS: Mapping[str, type[PlainEncoder]] = {plain.kind: plain for plain in (ScaleEncoder, BooleanEncoder)}


def fit_encoder(
    kind: EncoderKind,
    x: ArrayLike | Matrix,
    divisor: float | None = None,
    *,
    shared: int = 0,
    feature_names: Sequence[str] | None = None,
    weights: FloatArray | None = None,
) -> PlainEncoder:
    """The encoder of `kind` for training features x (n, d), an array or rows in a file; errors name columns by
    `feature_names`. weights (n,): how often each example counts, once by default.

    scale: low and high are the smallest and largest value of each column, or of each of `shared` runs of columns of
    equal length where that is not 0 (the channels of images: one range for all pixels). divide: low = 0, high =
    `divisor` for all columns. boolean: threshold = mean + 0.05 standard deviations of each column.

    Raises DataError (`check_features`; no rows) and SettingsError (unknown kind; divisor missing, useless or not > 0).
    """
    if (divisor is not None) != (kind == "divide"):
        raise SettingsError(f"a divisor belongs to the encoder 'divide' and to no other; found {kind!r} and {divisor}")
    raw = check_features(x, feature_names=feature_names)
    if kind == "divide":
        if divisor is None or not 0 < divisor < np.inf:
            raise SettingsError(f"the divisor must be a finite number above 0; found {divisor}")
        return ScaleEncoder(np.zeros(raw.shape[1]), np.full(raw.shape[1], float(divisor)))
    if kind not in PLAIN_ENCODERS:
        raise SettingsError(f"unknown encoder {kind!r}; choose scale, boolean or divide")
    if len(raw) == 0:
        raise DataError("an encoder cannot be fitted on no rows; give at least one training example")
    return PLAIN_ENCODERS[kind].fit(raw, shared=shared, feature_names=feature_names, weights=weights)


def _extremes(x: Matrix) -> tuple[FloatArray, FloatArray]:
    """(d,) smallest and largest values of the columns."""
    extremes = [(part.min(axis=0), part.max(axis=0)) for part in (x[rows] for rows in chunks(x))]
    low = np.min([least for least, _ in extremes], axis=0).astype(np.float64)
    return low, np.max([most for _, most in extremes], axis=0).astype(np.float64)


def _rounded_where_equal(threshold: FloatArray, x: Matrix) -> FloatArray:
    """(d,) `threshold`, rounded to float32 up or else down where that parts the examples (n, d) as it does, whether
    they are rounded to float32 too or not: an exported model takes float32."""
    with np.errstate(over="ignore"):
        nearest = threshold.astype(np.float32)
        up = np.where(nearest < threshold, np.nextafter(nearest, np.float32(np.inf)), nearest)
        down = np.where(nearest > threshold, np.nextafter(nearest, np.float32(-np.inf)), nearest)
        for rounded in (down, up):
            equal = np.isfinite(rounded)
            for values in (x[rows].astype(np.float64) for rows in chunks(x)):
                above = values >= threshold
                equal &= np.all((values >= rounded) == above, axis=0)
                equal &= np.all((values.astype(np.float32) >= rounded) == above, axis=0)
            threshold = np.where(equal, rounded, threshold)
    return threshold


def _check_span(low: FloatArray, high: FloatArray, feature_names: Sequence[str] | None = None) -> None:
    with np.errstate(over="ignore"):
        wrong = np.flatnonzero((low > high) | ~np.isfinite(high - low))
    if wrong.size:
        j = int(wrong[0])
        raise DataError(
            f"{column_name(j, feature_names)} cannot be scaled from [{low[j]}, {high[j]}]: low must not exceed high "
            "and their difference must be finite; rescale that column"
        )


def _check_finite(name: str, values: FloatArray, feature_names: Sequence[str] | None = None) -> None:
    if (wrong := np.flatnonzero(~np.isfinite(values))).size:
        found = f"{column_name(int(wrong[0]), feature_names)} has the {name} {values[wrong[0]]}"
        raise DataError(f"{found}; expected a finite number: rescale that column")
