"""Parquet: a file, or a directory of parts of one table."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcml.data.raw import listed
from lcml.errors import DataError

SUFFIX = ".parquet"
BUFFER_BYTES = 1 << 14
"""What is read of a column of a file at a time."""

MANY_ROWS, ROWS_PER_BYTE = 1 << 22, 32
"""Of more rows than both that number and so many for each byte of its files nothing can be learned: a label alone says
more than a quarter of a bit."""

_PANDAS_INDEX = "__index_level_"


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """The parts of a table, in the order of their names. index: columns that pandas says are a frame's index."""

    path: Path
    parts: tuple[Path, ...]
    schema: Any
    n_rows: int
    index: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [name for name in self.schema.names if not name.startswith(_PANDAS_INDEX)]

    def tables(self, columns: list[str], n_rows: int) -> Iterator[Any]:
        """The columns as pyarrow tables of up to `n_rows` rows; parts are read one after the other.

        Raises pyarrow's errors, also where a part holds more or fewer rows than it promises.
        """
        import pyarrow as pa

        schema = pa.schema([self.schema.field(name) for name in columns])
        for part in self.parts:
            with part.open("rb") as handle, _open(handle) as file:
                missing = file.metadata.num_rows
                for batch in file.iter_batches(n_rows, columns=columns):
                    missing -= batch.num_rows
                    if missing < 0:
                        break
                    yield pa.Table.from_batches([batch]).select(columns).cast(schema)
            if missing:
                raise pa.ArrowInvalid(f"{part.name} holds more or fewer rows than it promises")


def is_parquet(path: Path) -> bool:
    """Whether this is a Parquet file, by its name, or a directory that holds some."""
    return (path.suffix.lower() == SUFFIX and not path.is_dir()) or bool(part_paths(path))


def open_parquet(path: Path) -> ParquetTable:
    """The schema and size of a Parquet file or directory.

    Raises DataError where parts disagree or there are more rows than such files can say something of, pyarrow's errors.
    """
    parts = part_paths(path) or (path,)
    schemas, n_rows = [], 0
    for part in parts:
        with part.open("rb") as handle, _open(handle) as file:
            schemas.append(file.schema_arrow)
            n_rows += file.metadata.num_rows
        if schemas[-1].names != schemas[0].names:
            differ = sorted(set(schemas[-1].names) ^ set(schemas[0].names)) or schemas[-1].names
            raise DataError(
                f"{part}: expected the columns of {parts[0].name}, found a difference in {listed(differ)}; give parts "
                "of one table"
            )
    if n_rows > max(MANY_ROWS, ROWS_PER_BYTE * sum(part.stat().st_size for part in parts)):
        raise DataError(f"{path} has {n_rows} rows in so few bytes that nearly all are alike; leave most out")
    return ParquetTable(path, parts, schemas[0], n_rows, _index(schemas[0].metadata))


def _index(metadata: dict[bytes, bytes] | None) -> tuple[str, ...]:
    """The columns with names that pandas wrote a frame's index into."""
    try:
        index = json.loads((metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return tuple(name for name in index if isinstance(name, str) and not name.startswith(_PANDAS_INDEX))
    except (ValueError, LookupError, TypeError, RecursionError):  # not pandas', or not as pandas writes it
        return ()


def part_paths(path: Path) -> tuple[Path, ...]:
    """The parts of a table in a directory, by their names; none where it holds none."""
    if not path.is_dir():
        return ()
    return tuple(sorted(part for part in path.glob(f"*{SUFFIX}") if part.name[0] not in "._" and part.is_file()))


def _open(handle: Any) -> Any:
    """Buffered, so that a column of a row group, which may be the whole file, is not read in one go."""
    from pyarrow import parquet

    return parquet.ParquetFile(handle, buffer_size=BUFFER_BYTES, pre_buffer=False)
