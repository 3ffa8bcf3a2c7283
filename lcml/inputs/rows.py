"""Rows of a matrix that stays in a file: what memory does not hold is read piece by piece.

Pieces are read at their position, not mapped: mapped pages would count as memory of the process, and a file cut short
under a mapping would end it.
"""

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lcml.errors import DataError

CHUNK_BYTES = 1 << 23
"""Work on so many bytes of float64 at a time: no copy of the whole matrix is made."""

_GAP_BYTES = 1 << 14  # rows nearer to each other than this are read in one go, with what lies between them


class Matrix(Protocol):
    """Rows (n, d): an array, `Rows`, or what else gives the rows of a slice or of an array of numbers as an array."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any, /) -> NDArray[Any]: ...


class RowSet(ABC):
    """A matrix that is no array: it says itself how rows are chosen and joined."""

    shape: Any
    dtype: Any

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, rows: Any, /) -> Any: ...

    @property
    @abstractmethod
    def is_stored(self) -> bool:
        """Whether rows are read, or computed, only when they are asked for."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether another process reads them."""
        return False

    @abstractmethod
    def select(self, index: NDArray[np.integer]) -> Any:
        """Those rows."""

    @abstractmethod
    def joined(self, other: Any) -> Any:
        """These rows and then those of `other`, of the same source."""

    @abstractmethod
    def numbers(self, *, gaps: bool = False) -> "Matrix":
        """The rows as numbers, with `gaps` NaN among them; DataError where they are none."""


class Computed(ABC):
    """A matrix whose columns are computed when rows are read, or that is made of such matrices."""

    @abstractmethod
    def up_to(self, n_columns: int) -> Matrix:
        """The same rows, whose columns from `n_columns` on may be 0 instead of what they are."""


def up_to(matrix: Matrix, n_columns: int) -> Matrix:
    """Those rows for who reads the first `n_columns` alone: others may be 0, where that spares computing them."""
    return matrix.up_to(n_columns) if isinstance(matrix, Computed) else matrix


class Readable(Protocol):
    """A matrix (n, d) that gives chosen rows as an array."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def read(self, rows: NDArray[np.int64]) -> NDArray[Any]: ...


class SparseMatrix:
    """A matrix in scipy's CSR format, dense only where it is read."""

    def __init__(self, matrix: Any) -> None:
        self.shape: tuple[int, int] = matrix.shape
        self.dtype: np.dtype[Any] = matrix.dtype
        self._matrix = matrix

    def read(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The rows (n_rows,) as (n_rows, d)."""
        return np.asarray(self._matrix[rows].toarray())


class StoredMatrix:
    """A matrix `shape` (n, d), row by row, from byte `offset` of an open file on.

    It takes the file over, and closes it when nothing refers to the matrix any more.
    """

    def __init__(self, file: BinaryIO, shape: tuple[int, int], dtype: DTypeLike, offset: int = 0) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._file, self._offset = file, offset
        weakref.finalize(self, file.close)

    def read(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The rows (n_rows,) as (n_rows, d), in native byte order. Raises DataError where the file has lost them."""
        native = self.dtype.newbyteorder("=")
        if not len(rows):
            return np.empty((0, self.shape[1]), native)
        gap = max(1, _GAP_BYTES // max(1, self._row_bytes))
        steps = np.diff(rows)
        runs = np.split(rows, np.flatnonzero((steps < 1) | (steps > gap)) + 1)
        found = [self._run(run) for run in runs]
        return (np.concatenate(found) if len(found) > 1 else found[0]).astype(native, copy=False)

    @property
    def _row_bytes(self) -> int:
        return self.shape[1] * self.dtype.itemsize

    def _run(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Ascending rows, near to each other."""
        span = self._span(int(rows[0]), int(rows[-1]) + 1)
        return span if len(span) == len(rows) else span[rows - rows[0]]

    def _span(self, first: int, stop: int) -> NDArray[Any]:
        """The rows first..stop-1, all that lie there."""
        span = np.empty((stop - first, self.shape[1]), self.dtype)
        target, done = span.reshape(-1).view(np.uint8).data, 0
        while done < span.nbytes:  # the system reads at most 2 GB at a time
            position = self._offset + first * self._row_bytes + done
            n_read = os.preadv(self._file.fileno(), [target[done:]], position)
            if not n_read:
                raise DataError(f"{self._file.name} has become shorter while it was read; restore it and start again")
            done += n_read
        return span


@dataclass(frozen=True, eq=False)
class Rows(RowSet):
    """Rows of a matrix in a file, or of a sparse one, by their numbers `index` (n,); read when asked for."""

    matrix: Readable
    index: NDArray[np.int64]

    @property
    def is_stored(self) -> bool:
        return True

    @property
    def is_elsewhere(self) -> bool:
        return getattr(self.matrix, "is_elsewhere", False)

    def select(self, index: NDArray[np.integer]) -> "Rows":
        return Rows(self.matrix, self.index[index])

    def joined(self, other: Any) -> "Rows":
        return Rows(self.matrix, np.concatenate([self.index, other.index]))

    def numbers(self, *, gaps: bool = False) -> "Rows":
        return self

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.index), self.matrix.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrix.dtype.newbyteorder("=")

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[Any]:
        return self.matrix.read(self.index[rows])


@dataclass(frozen=True, eq=False)
class Ordered(Computed):
    """Rows of a matrix in another order, `index` (n,), without a copy of them."""

    matrix: Matrix
    index: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.index), self.matrix.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrix.dtype

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[Any]:
        return self.matrix[self.index[rows]]

    def up_to(self, n_columns: int) -> "Ordered":
        return Ordered(up_to(self.matrix, n_columns), self.index)


@dataclass(frozen=True, eq=False)
class Joined(Computed):
    """The rows of two matrices, of any kinds, without a copy of them."""

    first: Matrix
    second: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.first.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.first.dtype

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        n, (start, stop, _) = len(self.first), rows.indices(len(self))
        return np.concatenate([self.first[start : min(stop, n)], self.second[max(start - n, 0) : max(stop - n, 0)]])

    def up_to(self, n_columns: int) -> "Joined":
        return Joined(up_to(self.first, n_columns), up_to(self.second, n_columns))


def all_rows(matrix: Readable) -> Rows:
    """Every row of a matrix in a file, or of a sparse one."""
    return Rows(matrix, np.arange(matrix.shape[0]))


def select(matrix: Matrix, index: NDArray[np.integer]) -> Matrix:
    """Those rows: a copy of an array's, while what is in a file stays there."""
    found: Matrix = matrix.select(index) if isinstance(matrix, RowSet) else matrix[index]
    return found


def join(first: Matrix, second: Matrix) -> Matrix:
    """The rows of both, arrays or rows of one source."""
    if isinstance(first, RowSet):
        found: Matrix = first.joined(second)
        return found
    return np.concatenate([first[:], second[:]])


def chunks(matrix: Matrix) -> Iterator[slice]:
    """Slices of rows that are easy on memory."""
    step = max(1, CHUNK_BYTES // (8 * max(1, matrix.shape[1])))
    return (slice(start, start + step) for start in range(0, len(matrix), step))


def row_sum(values: NDArray[Any], weights: NDArray[np.float64] | None, rows: slice) -> NDArray[np.float64]:
    """(d,) the sum of values (n, d) of the examples `rows`, each as often as its weight among all says; None: once."""
    total: NDArray[np.float64] = values.sum(axis=0, dtype=np.float64) if weights is None else weights[rows] @ values
    return total


def check_features(
    x: ArrayLike | Matrix,
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
    *,
    gaps: bool = False,
) -> Matrix:
    """x as a numeric matrix (n, d) of finite values, or with `gaps` of any: rows in a file as they are, else an array,
    not copied where it is one already.

    Raises DataError where x is not numeric, not two-dimensional, not `n_features` wide, or holds NaN or infinity
    (row and column counted from 0, and the column's name where `feature_names` gives it).
    """
    try:
        raw: Matrix = x.numbers(gaps=gaps) if isinstance(x, RowSet) else np.asarray(x)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"features must be a matrix of numbers, one row per example: {error}") from error
    if raw.dtype.kind not in "buif":
        found = f"found an array of type {raw.dtype}"
        raise DataError(f"features must be numbers; {found}: encode text as numbers or drop it")
    if len(raw.shape) != 2:
        raise DataError(
            f"features must be a matrix (n, d), one row per example; found shape {raw.shape}: "
            "reshape a single example to (1, d), an image to a row"
        )
    if n_features is not None and raw.shape[1] != n_features:
        what = f"expected {n_features} features per example, found {raw.shape[1]}"
        raise DataError(f"{what}; give the columns trained on, in order")
    if raw.dtype.kind == "f" and not gaps:
        for rows in chunks(raw):
            check_finite(raw[rows], rows.start, feature_names)
    return raw


def check_finite(values: NDArray[Any], first: int, feature_names: Sequence[str] | None = None) -> None:
    """DataError where one of the values (n, d), of the rows from `first` on, is NaN or infinity."""
    if (wrong := np.argwhere(~np.isfinite(values))).size:
        i, j = wrong[0]
        raise DataError(
            f"row {first + i}, {column_name(j, feature_names)} is {values[i, j]}; features must be finite: fill in or "
            "drop it (rows and columns count from 0)"
        )


def column_name(j: int, feature_names: Sequence[str] | None) -> str:
    """What a message calls column j."""
    return f"column {j}" + ("" if feature_names is None else f" ({feature_names[j]!r})")
