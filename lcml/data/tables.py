"""Tables, text with a line of column names or Parquet, read by pyarrow (extra `tables`)."""

import csv
import gzip
import math
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.data.arrow import ArrowColumn
from lcml.data.delimited import is_text_table, open_text_table, read_text_table
from lcml.data.parquet import is_parquet, open_parquet
from lcml.data.raw import RawSet, default_names, is_pixel, listed
from lcml.data.stored import gather
from lcml.errors import DataError, FormatError, MissingDependencyError, OutputError
from lcml.inputs.rows import CHUNK_BYTES
from lcml.inputs.table import Table

TARGET_NAMES = ("label", "target", "class", "y")
"""A column of one of these names is the target where none is named."""

_ROW_NUMBERS = re.compile(r"Unnamed: \d+")
"""What pandas calls a column without a name: the row numbers that it wrote before."""


_LEAST_ROWS = 512
"""Of a text table, which is in memory, at a time: a slice costs as much for every column as some ten values."""


def is_table(path: Path) -> bool:
    """Whether `read_table` reads it, by its name."""
    return is_text_table(path) or is_parquet(path)


def read_table(
    path: Path,
    memory: float,
    target: str | None,
    feature_names: Sequence[str] | None,
    require_labels: bool = True,
    texts: Collection[str] = (),
) -> RawSet:
    """The set in a table: the target column and every other column as a feature.

    With `feature_names` those columns alone are read, in that order; names that lcml made up (`default_names`) match
    by position; of a text table `texts` are those of them that are text, whatever it holds. Without `require_labels`
    the target column may be missing and is left out of the features. A Parquet file is read piece by piece; features
    that take, raw and encoded, more than `memory` bytes go to a temporary file. Columns that number the rows (a
    frame's index, a first column without a name) are left out, with a note.

    Raises DataError for a missing target or feature column, duplicate or empty names, and columns that hold no single
    values; FormatError for a damaged file; MissingDependencyError without pyarrow; OutputError without room.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingDependencyError("pyarrow", "tables", f"reading {path.name}") from error
    asked = (*(feature_names or ()), *([] if target is None else [target]))
    is_text = is_text_table(path)
    try:
        table: Any = open_text_table(path, asked) if is_text else open_parquet(path)
        index = _index(table.names) if is_text else table.index
        left_out = [name for name in index if name in table.names and name not in asked]
        names = [name for name in table.names if name not in left_out]
        notes = (*table.notes, *(f"{path}: column {name!r} numbers the rows; it is left out" for name in left_out))
        target = _target(path, names, target, feature_names or (), require_labels)
        columns = _feature_columns(path, [name for name in names if name != target], feature_names)
        labelled = target if require_labels else None
        wanted = columns if labelled is None else [*columns, labelled]
        step = max(1, CHUNK_BYTES // (8 * max(1, len(columns))))  # rows that are turned into an array at a time
        if is_text:
            # As text, so that their type does not depend on which of them a file happens to hold: labels, and `texts`.
            as_text = [column for column, name in zip(columns, feature_names or columns, strict=True) if name in texts]
            whole = read_text_table(table, wanted, as_text if target is None else [*as_text, target])
            schema, n_rows, step = whole.schema, whole.num_rows, max(step, _LEAST_ROWS)
            tables = (whole.slice(first, step) for first in range(0, n_rows, step))
        else:
            schema, n_rows, tables = table.schema, table.n_rows, table.tables(wanted, step)
        label_parts: list[Any] = []
        whole_numbers = [name for name in columns if pa.types.is_integer(schema.field(name).type)]
        # read for it: of a damaged Parquet file the description of a column ends the process that looks at it
        pieces = [whole] if is_text else table.tables(whole_numbers, step) if whole_numbers else []
        with_gaps = {name for piece in pieces for name in whole_numbers if piece.column(name).null_count}
        coded = [ArrowColumn(name, schema.field(name).type, name in with_gaps) for name in columns]
        dtype = np.result_type(*(column.dtype for column in coded)) if coded else np.dtype(float)
        blocks = _blocks(path, tables, coded, dtype, labelled, label_parts)
        values = gather(blocks, (n_rows, len(columns)), dtype, math.inf if is_text else memory)
        features = Table(
            tuple(column.raw(name) for column, name in zip(coded, feature_names or columns, strict=True)), values
        )
        labels = None
        if labelled is not None:
            column = pa.chunked_array(label_parts, schema.field(labelled).type)
            labels = _labels(path, column, labelled)
    except OutputError:
        raise
    except pa.ArrowException as error:
        raise FormatError(f"not a readable table: {error}", path) from error
    except UnicodeDecodeError as error:
        raise FormatError(f"not text in UTF-8 ({error}); convert it", path) from error
    except csv.Error as error:
        raise FormatError(f"no line of column names ({error})", path, 1) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"damaged gzip data ({error}); fetch the file again", path) from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    name = path.name.split(".")[0] if is_text else path.stem
    return RawSet(name, str(path), features, labels, tuple(feature_names or columns), notes=notes)


def _index(names: list[str]) -> list[str]:
    """Columns of a text table that hold row numbers, as pandas and R write them."""
    return [name for j, name in enumerate(names) if _ROW_NUMBERS.fullmatch(name) or (j == 0 and not name)]


def _blocks(
    path: Path,
    tables: Iterator[Any],
    columns: list[ArrowColumn],
    dtype: np.dtype[Any],
    target: str | None,
    labels: list[Any],
) -> Iterator[NDArray[Any]]:
    """The features of every table, whose labels are added to `labels`."""
    for table in tables:
        block = np.empty((table.num_rows, len(columns)), dtype)
        for j, column in enumerate(columns):
            try:
                block[:, j] = column.numbers(table.column(column.name))
            except DataError as error:
                raise DataError(f"{path}: {error}") from error
        if target is not None:
            labels += table.column(target).chunks
        yield block


def _target(
    path: Path, names: list[str], target: str | None, feature_names: Sequence[str], required: bool
) -> str | None:
    if not names:
        raise DataError(f"{path} has no columns; expected a first line of column names and a line per example")
    if "" in names:
        raise DataError(f"{path}: column {names.index('')} has no name (a row index?); name it or drop it")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{path}: the column name {twice[0]!r} is there twice; give every column its own name")
    if target is None:
        candidates = [name for name in names if name in TARGET_NAMES and name not in feature_names]
        if len(candidates) == 1:
            return candidates[0]
        found = f"{listed(candidates)} all could be it" if candidates else f"none is called {listed(TARGET_NAMES)}"
    elif target in names:
        return target
    else:
        found = f"there is no {target!r}"
    if required:
        raise DataError(f"{path}: which column is the target? {found}; name one with --target out of: {listed(names)}")
    return None


def _feature_columns(path: Path, present: list[str], feature_names: Sequence[str] | None) -> list[str]:
    if feature_names is None:
        return present
    missing = [name for name in feature_names if name not in set(present)]
    if not missing:
        return list(feature_names)
    made_up = is_pixel(feature_names[0]) or feature_names[0] in default_names(1)
    if made_up and len(present) == len(feature_names):
        return present
    raise DataError(
        f"{path}: expected {len(feature_names)} feature columns, found {len(present)}, without {listed(missing)}; "
        "give the columns trained on (their order does not matter)"
    )


def _labels(path: Path, column: Any, name: str) -> NDArray[Any]:
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise DataError(
            f"{path}: row {row} of the target {name!r} is empty (a gap such as NA is none of its "
            "classes); drop that row (rows count from 0)"
        )
    if types.is_timestamp(column.type) or types.is_date(column.type):
        if types.is_timestamp(column.type) and column.type.tz is not None:
            column = column.cast(pa.timestamp(column.type.unit))
        return np.asarray(column.to_numpy())
    if types.is_decimal(column.type):
        column = column.cast(pa.string())
    if types.is_binary(column.type) or types.is_large_binary(column.type) or types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary()).cast(pa.string())
    if types.is_temporal(column.type) or types.is_nested(column.type):
        raise DataError(f"{path}: the target {name!r} holds {column.type}; expected whole numbers or text")
    return np.asarray(column.to_numpy())
