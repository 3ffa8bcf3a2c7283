"""Rows in pieces that the workers of a cluster read: the parts of a Parquet table, partitions of a Dask collection.

Workers look at every piece once and say what is in it; from then on rows are read where they are asked for: in a worker
of what it holds, for this process, which needs a sample of them, by the workers.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, Future
from numpy.typing import NDArray

from lcml.data.raw import RawSet, listed
from lcml.data.tables import read_table
from lcml.errors import DataError
from lcml.inputs.rows import Matrix, all_rows, check_features
from lcml.inputs.table import RawColumn, Table, from_frame, is_frame

_given: ContextVar[Mapping[int, Any]] = ContextVar("given", default={})  # noqa: B039  # never changed


@contextmanager
def given(pieces: Mapping[int, Any]) -> Iterator[None]:
    """In a worker: who is within reads these pieces of a collection, by their numbers."""
    before = _given.set(pieces)
    try:
        yield
    finally:
        _given.reset(before)


@dataclass(frozen=True)
class PartFile:
    """A part of a Parquet table."""

    path: str
    target: str | None

    def read(self) -> RawSet:
        return read_table(Path(self.path), math.inf, self.target, None)


@dataclass(frozen=True, eq=False)
class _Survey:
    """What is in a piece. labels: None of a collection; digest: of all of it."""

    columns: tuple[RawColumn, ...] | None
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    digest: bytes
    labels: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()


class Pieces:
    """The rows of all pieces, in their order, as numbers (`lcml.inputs.table`). futures: of a collection's pieces."""

    is_elsewhere = True

    def __init__(self, client: Client, sources: Sequence[PartFile | Future], source: str) -> None:
        surveys: list[_Survey] = client.gather(client.map(_survey, list(sources), pure=False))
        self._client, self.futures = client, [None if isinstance(s, PartFile) else s for s in sources]
        self._files = [s if isinstance(s, PartFile) else None for s in sources]
        self.columns = _columns(source, surveys)
        self._starts = np.cumsum([0, *(survey.shape[0] for survey in surveys)])
        self.shape = int(self._starts[-1]), surveys[0].shape[1]
        self.dtype = np.result_type(*(survey.dtype for survey in surveys))
        self.digest = hashlib.sha256(b"".join(survey.digest for survey in surveys)).digest()
        self.surveys = surveys

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_client": None, "futures": [], "surveys": [], "digest": b""}

    def read(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The rows (n_rows,) as (n_rows, d); DataError where a piece has become another."""
        found = np.empty((len(rows), self.shape[1]), self.dtype)
        piece = np.searchsorted(self._starts, rows, side="right") - 1
        own = {int(i): np.flatnonzero(piece == i) for i in np.unique(piece)}
        wanted = {i: rows[places] - self._starts[i] for i, places in own.items()}
        if self._client is None:
            blocks = {i: self.block(i, _given.get().get(i))[some] for i, some in wanted.items()}
        else:
            asked = {i: self._client.submit(_taken, self, i, some, self.futures[i]) for i, some in wanted.items()}
            blocks = self._client.gather(asked)
        for i, places in own.items():
            found[places] = blocks[i]
        return found

    def of(self, rows: NDArray[np.int64]) -> dict[int, Future]:
        """The futures of the pieces, by their numbers, that hold these rows."""
        pieces = np.unique(np.searchsorted(self._starts, rows, side="right") - 1).tolist()
        return {i: future for i in pieces if (future := self.futures[i]) is not None}

    def block(self, number: int, piece: Any) -> NDArray[Any]:
        """All rows of a piece, given what it is unless it is in a file."""
        file = self._files[number]
        features = file.read().features if file is not None else _features(piece)
        if len(features) != self._starts[number + 1] - self._starts[number]:
            raise DataError(
                f"{'a partition' if file is None else file.path} has changed while it was read; start again"
            )
        if self.columns is None or not isinstance(features, Table):
            return np.asarray(features)
        values = features.values[:].astype(self.dtype)
        for j, (own, whole) in enumerate(zip(features.columns, self.columns, strict=True)):
            if own.texts != whole.texts[: len(own.texts)]:
                place = {text: i for i, text in enumerate(whole.texts)}
                numbers = np.array([*map(place.__getitem__, own.texts), np.nan])
                gap = np.isnan(values[:, j])
                values[:, j] = numbers[np.where(gap, len(own.texts), values[:, j]).astype(np.intp)]
        return values

    def features(self) -> Matrix:
        """All rows, of a table with its columns."""
        rows: Matrix = all_rows(self)
        return rows if self.columns is None else Table(self.columns, rows)


def parquet_parts(client: Client, path: Path, parts: Sequence[Path], target: str | None) -> RawSet:
    """The set in a directory of parts of one table, as `read_table` gives it, with the features on the cluster."""
    pieces = Pieces(client, [PartFile(str(part.resolve()), target) for part in parts], str(path))
    assert pieces.columns is not None
    labels = np.concatenate([survey.labels for survey in pieces.surveys if survey.labels is not None])
    names = tuple(column.name for column in pieces.columns)
    return RawSet(path.stem, str(path), pieces.features(), labels, names, notes=pieces.surveys[0].notes)


def _features(piece: Any) -> Matrix:
    return from_frame(piece) if is_frame(piece) else check_features(piece)


def _survey(source: Any) -> _Survey:
    """In a worker: what is in a piece."""
    raw = source.read() if isinstance(source, PartFile) else None
    features = _features(source) if raw is None else raw.features
    columns, values = (features.columns, features.values) if isinstance(features, Table) else (None, features)
    digest = hashlib.sha256(repr(columns).encode())
    digest.update(np.ascontiguousarray(values[:]).data)
    labels, notes = (None, ()) if raw is None else (raw.labels, raw.notes)
    digest.update(b"" if labels is None else repr(labels.tolist()).encode())
    return _Survey(columns, (len(values), values.shape[1]), values.dtype, digest.digest(), labels, notes)


def _taken(pieces: Pieces, number: int, rows: NDArray[np.int64], piece: Any) -> NDArray[Any]:
    """In a worker: some rows of a piece."""
    return pieces.block(number, piece)[rows]


def _columns(source: str, surveys: Sequence[_Survey]) -> tuple[RawColumn, ...] | None:
    """The columns of all pieces, with the texts of each in the order in which they come up."""
    first = surveys[0].columns
    if first is None:
        return None
    found = []
    for survey in surveys:
        names = [column.name for column in survey.columns or ()]
        if names != [column.name for column in first]:
            differ = sorted(set(names) ^ {column.name for column in first}) or names
            raise DataError(f"{source}: expected pieces of one table, found a difference in {listed(differ)}")
    for own in zip(*(survey.columns or () for survey in surveys), strict=True):
        told = [column for column in own if column.kind != "text" or column.texts] or [own[0]]  # others are all gaps
        kinds = sorted({column.kind for column in told})
        if len(kinds) > 1:
            raise DataError(f"{source}: column {own[0].name!r} holds {' and '.join(kinds)}; give all pieces one type")
        texts = tuple(dict.fromkeys(text for column in own for text in column.texts))
        found.append(replace(told[0], texts=texts))
    return tuple(found)
