"""What an encoder is: how a raw example becomes q in [0, 1]^d, the probabilities of the circuit's variables.

An encoder is part of the model, so that a model always takes raw examples. `lcml.inputs.registry` knows all by their
kind; how one is fitted to training examples is its own, as the settings are that it takes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.inputs.rows import Computed, Matrix, RowSet, check_features

State: TypeAlias = Mapping[str, NDArray[Any]]
"""By name, arrays of numbers, or of text (numpy's StringDType)."""

Words: TypeAlias = Callable[[Iterable[int]], list[str]]
"""What literals that hold together say, in texts that hold together. Of n variables literal v says that variable v is
true, n + v that it is false."""


def one_by_one(true: Sequence[str], false: Sequence[str] | None = None) -> Words:
    """A text per literal, in the order of the variables: `true` or `false`, by default 'not ' and the text of true."""
    texts = (*true, *(false or [f"not {text}" for text in true]))
    return lambda literals: [texts[i] for i in sorted(literals, key=lambda i: i % len(true))]


_WRITTEN_OUT, _WHOLE = 1e3, 1e15  # of numbers between these hundredths are told too


def short_number(value: float, digits: int = 4) -> str:
    """A number as people write it: so many digits, or to the hundredth where these would not reach the point."""
    if _WRITTEN_OUT <= abs(value) < _WHOLE:
        return f"{value:.{max(2, digits - 4)}f}".rstrip("0").rstrip(".")
    return f"{value:.{digits}g}"


class Encoder(Protocol):
    """What a model, its file, its words and its export ask of an encoder; what a raw example is, it alone knows.

    kind: its name in `lcml.inputs.registry` and in a model file. channels: names of the images that it makes of every
    raw image, none where it makes none. names: of columns that it finds by name, none where features have an order.
    """

    kind: ClassVar[str]
    channels: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    @property
    def blocks(self) -> NDArray[np.intp]:
        """(n_blocks + 1,): variables blocks[i] to blocks[i + 1] - 1 come from one feature, where some share one."""
        return np.arange(self.n_outputs + 1)

    @property
    def n_features(self) -> int:
        """Raw features of an example."""

    @property
    def n_outputs(self) -> int:
        """Probabilities per example: the variables that a circuit over all of them has."""

    @property
    def output_shape(self) -> tuple[int, int, int] | None:
        """(channels, height, width) of an encoded example, where the encoder says what its images are."""
        return None

    def encode(self, x: Any, *, gaps: bool = False) -> NDArray[np.float32]:
        """Probabilities (n, n_outputs), float32, C-contiguous, of n raw examples; DataError where they are none.

        With `gaps`, a value that is missing where training had no gap makes its variables NaN.
        """

    def encode_up_to(self, x: Any, n_outputs: int) -> NDArray[np.float32]:
        """As `encode`, for who reads the first `n_outputs` alone: the others may be 0, where that spares work."""
        return self.encode(x)

    def variable_names(self, feature_names: Sequence[str]) -> tuple[str, ...]:
        """What each of the n_outputs variables stands for when it is true."""

    def words(self, feature_names: Sequence[str]) -> Words:
        """What the literals of the n_outputs variables say, in the units of the raw features."""
        return one_by_one(self.variable_names(feature_names))

    def inputs_at(self, shares: FloatArray) -> Any:
        """Raw examples at these shares (n, n_features) of each feature's range: 0 for what is lowest, 1 for what is
        highest, below and above for what lies beyond. Random shares try everything that the encoder tells apart."""

    def state(self) -> State:
        """What the model file stores."""

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The encoder whose `state()` this is; ValueError, as all of lcml's errors are, where it is none."""


@dataclass(frozen=True, eq=False)
class EncodedRows(Computed):
    """Rows in a file or in memory, or computed when they are read, as what `encode` makes of them then: (n, width);
    encode_up_to: makes the first of the columns alone, None where all are made at once."""

    rows: Matrix
    encode: Callable[[Any], NDArray[Any]]
    width: int
    dtype: np.dtype[Any] = np.dtype(np.float32)  # noqa: RUF009  # cannot be changed
    encode_up_to: Callable[..., NDArray[Any]] | None = None

    @classmethod
    def of_images(cls, encoder: Encoder, images: Matrix) -> Self:
        """Raw images, encoded when they are read as far as they are."""
        return cls(images, encoder.encode, encoder.n_outputs, encode_up_to=encoder.encode_up_to)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.width

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[Any]:
        return self.encode(self.rows[rows])

    def up_to(self, n_columns: int) -> "EncodedRows":
        if self.encode_up_to is None:
            return self
        return replace(self, encode=partial(self.encode_up_to, n_outputs=n_columns))


def coded(encoder: Any, x: Any) -> FloatArray | EncodedRows:
    """As `encoded`, the codes of an encoder of columns; of a table in a file an array too."""
    if isinstance(x, RowSet) and x.is_elsewhere:
        return EncodedRows(x, encoder.codes, encoder.n_features, np.dtype(np.float64))
    codes: FloatArray = encoder.codes(x)
    return codes


def encoded(encoder: Encoder, x: Any, *, gaps: bool = False) -> NDArray[np.float32] | EncodedRows:
    """Raw examples as probabilities: an array of them, or a view that encodes what is read, of rows in a file and of
    images with channels, which take many times the memory of what they are made of."""
    is_stored = isinstance(x, RowSet) and x.is_stored
    if encoder.output_shape is not None:
        return EncodedRows.of_images(encoder, x if is_stored else check_features(x, encoder.n_features))
    encode = partial(encoder.encode, gaps=gaps)
    return EncodedRows(x, encode, encoder.n_outputs) if is_stored else encode(x)
