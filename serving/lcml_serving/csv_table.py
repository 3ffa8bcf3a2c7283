"""Tables as CSV, for /invocations: a line of column names, then a line of numbers per row."""

import csv
import io
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml_serving.errors import BadRequestError, UnprocessableError, short

_MESSAGE = 200  # characters of numpy's message


def parse_csv(body: bytes, feature_names: Sequence[str] | None, max_rows: int) -> tuple[list[str], NDArray[Any]]:
    """Column names, and float64 (rows, columns).

    One row more than `max_rows` is read, so that the caller can refuse it. Raises BadRequestError where the text is
    not UTF-8 or has no first line, UnprocessableError where a name is missing or a cell is not a number. A first line
    of numbers is refused, as rows without names would lose one, unless it is the features' names or pandas' 0, 1, ...
    """
    try:
        lines = io.StringIO(body.decode("utf-8-sig"), newline="")
        columns = next(csv.reader(lines, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequestError(f"the body is not CSV in UTF-8: {error}") from None
    if not columns:
        raise BadRequestError("the CSV is empty; expected a line of column names, then a line of numbers per row")
    numbered = [str(place) for place in range(len(columns))]
    if all(map(_is_number, columns)) and set(columns) not in (set(numbered), set(feature_names or ())):
        raise UnprocessableError(
            f"the first line of the CSV is numbers ({short(columns[0])}, ...); expected the names of the columns there"
        )
    rows = list(itertools.islice((line for line in lines if line.strip()), max_rows + 1))
    if not rows:
        return columns, np.zeros((0, len(columns)))
    try:
        values = np.loadtxt(rows, delimiter=",", quotechar='"', comments=None, ndmin=2)
    except ValueError as error:
        raise UnprocessableError(f"the CSV holds something else than numbers: {str(error)[:_MESSAGE]}") from None
    if values.shape[1] != len(columns):
        raise UnprocessableError(f"the CSV names {len(columns)} columns, but its rows have {values.shape[1]} numbers")
    return columns, values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
