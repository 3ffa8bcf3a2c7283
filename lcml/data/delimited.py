"""Text tables: lines of values under a line of column names, separated by commas, semicolons, tabs or bars."""

import csv
import gzip
import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from lcml.data.labels import GAPS
from lcml.data.raw import listed
from lcml.errors import DataError, FormatError
from lcml.inputs.table import is_number

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
MAX_HEADER_CHARS = 1 << 24
"""A longer line of column names is none (and is not read into memory)."""
MAX_COLUMNS = 1 << 17
"""pyarrow takes ten kilobytes for each."""
MAX_RATIO, UNPACKED_BYTES = 100, 1 << 26
"""A gzipped table that unpacks to more bytes than both this multiple of its size and that number is no table: those of
measurements unpack to ten times their size."""

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SAMPLE_CHARS = 1 << 16
_BLOCK_BYTES = (1 << 20, 1 << 25, (1 << 31) - 1)
"""What pyarrow reads at a time: a row must fit into it, so that a longer block is tried where one does not."""
_ROWS_OF_BLOCK = 64
"""So many are told by the line of names: every column of a block takes about as much memory as these values."""
_TOO_SHORT = "straddling", "cannot infer number of columns"

_DECIMAL_COMMA = re.compile(r"\s*-?\d+,\d+\s*")
_DECIMAL_POINT = re.compile(r"\s*-?\d+\.\d+\s*")


@dataclass(frozen=True)
class TextTable:
    """A file of text and how its lines are to be read."""

    path: Path
    names: list[str]
    separator: str
    decimal: str

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of how the file is read."""
        if self.separator == _usual_separator(self.path):
            return ()
        comma = ", decimals with a comma" if self.decimal == "," else ""
        return (f"{self.path}: values are separated by {_SEPARATORS[self.separator]}{comma}",)


def is_text_table(path: Path) -> bool:
    """Whether the file's name is that of a text table."""
    return path.name.lower().endswith(SUFFIXES)


def open_text_table(path: Path, expected: tuple[str, ...]) -> TextTable:
    """The column names of a text table, how values are separated and decimals written.

    expected: names that are asked for; without one of them a first line of numbers is refused as no line of names.
    Raises DataError for that, FormatError for a first line that is too long or names too many columns and for gzip data
    that unpack to too much, csv.Error, UnicodeDecodeError.
    """
    _check_ratio(path)
    with io.TextIOWrapper(_bytes(path), encoding="utf-8-sig", newline="") as file:
        separator = _separator(path, next(_lines(file, path), ""))
        file.seek(0)
        rows = csv.reader(_lines(file, path), delimiter=separator)
        names = next(rows, [])
        if names and all(map(is_number, names)) and not set(expected) & set(names):
            raise DataError(
                f"{path} starts with numbers ({listed(names)}); put a line of column names before them, or name the "
                "target among them with --target"
            )
        if len(names) > MAX_COLUMNS:
            raise FormatError(f"{len(names)} columns; expected at most {MAX_COLUMNS}: save the table as .npz", path)
        sample = file.read(_SAMPLE_CHARS).splitlines() if separator == ";" else []
        values = [value for row in csv.reader(sample, delimiter=separator) for value in row]
    by_comma = any(map(_DECIMAL_COMMA.fullmatch, values)) and not any(map(_DECIMAL_POINT.fullmatch, values))
    return TextTable(path, names, separator, "," if by_comma else ".")


def read_text_table(table: TextTable, columns: list[str], texts: Collection[str]) -> Any:
    """The columns as a pyarrow table, those in `texts` as text; texts in GAPS, and empty ones, are null.

    Raises pyarrow's errors and OSError.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    convert = arrow_csv.ConvertOptions(
        include_columns=columns,
        column_types=dict.fromkeys(texts, pa.string()),
        null_values=["", *GAPS],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        decimal_point=table.decimal,
    )
    parse = arrow_csv.ParseOptions(delimiter=table.separator, newlines_in_values=True)
    least = min(_ROWS_OF_BLOCK * sum(len(name) + 1 for name in table.names), _BLOCK_BYTES[1])
    for block in [size for size in _BLOCK_BYTES if size >= least]:
        try:
            with _bytes(table.path) as file:
                return arrow_csv.read_csv(file, arrow_csv.ReadOptions(block_size=block), parse, convert)
        except pa.ArrowInvalid as error:
            fits = not any(part in str(error) for part in _TOO_SHORT)
            if fits or block == _BLOCK_BYTES[-1]:
                raise
    raise AssertionError


def _check_ratio(path: Path) -> None:
    """FormatError where gzip data unpack to more than a table can."""
    if not _is_packed(path):
        return
    most = max(UNPACKED_BYTES, MAX_RATIO * path.stat().st_size)
    with gzip.open(path) as file:
        while file.read(_BLOCK_BYTES[0]):
            if file.tell() > most:
                raise FormatError(
                    f"its gzip data unpack to more than {most >> 20} MB, over {MAX_RATIO} times their size, as no "
                    "table of measurements does; unpack the file if it is one",
                    path,
                )


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _bytes(path: Path) -> Any:
    return gzip.open(path) if _is_packed(path) else path.open("rb")


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    while line := file.readline(MAX_HEADER_CHARS):
        if len(line) == MAX_HEADER_CHARS:
            raise FormatError(f"a line is longer than {MAX_HEADER_CHARS} characters; expected column names", path)
        yield line


def _usual_separator(path: Path) -> str:
    return "\t" if ".tsv" in path.name.lower() else ","


def _separator(path: Path, line: str) -> str:
    """The usual one where the line of names has it, else the one that it has most of."""
    bare = re.sub(r'"[^"]*"', "", line)
    usual = _usual_separator(path)
    return usual if usual in bare else max(_SEPARATORS, key=lambda mark: (bare.count(mark), mark == usual))
