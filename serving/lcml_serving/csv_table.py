"""Tables as CSV, for /invocations: a line of column names, then a line of numbers per row."""

import csv
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml_serving.errors import BadRequestError, UnprocessableError, short


def parse_csv(body: bytes, max_rows: int) -> tuple[list[str], NDArray[Any]]:
    """Column names, and float64 (rows, columns).

    One row more than `max_rows` is read, so that the caller can refuse it. Raises BadRequestError where the text is not
    UTF-8 or has no first line, UnprocessableError where a name is missing or a cell is not a number.
    """
    try:
        text = body.decode("utf-8-sig")
        lines = io.StringIO(text, newline="")
        columns = next(csv.reader(lines, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequestError(f"the body is not CSV in UTF-8: {error}") from None
    if not columns:
        raise BadRequestError("the CSV is empty; expected a line of column names, then a line of numbers per row")
    if columns != [str(place) for place in range(len(columns))] and all(map(_is_number, columns)):
        raise UnprocessableError(
            f"the first line of the CSV is numbers ({short(columns[0])}, ...); expected the names of the columns there"
        )
    rest = text[lines.tell() :]
    if not rest.strip():
        return columns, np.zeros((0, len(columns)))
    try:
        values = np.loadtxt(
            io.StringIO(rest), delimiter=",", quotechar='"', comments=None, ndmin=2, max_rows=max_rows + 1
        )
    except ValueError as error:
        raise UnprocessableError(f"the CSV holds something else than numbers: {str(error)[:_MESSAGE]}") from None
    if values.shape[1] != len(columns):
        raise UnprocessableError(f"the CSV names {len(columns)} columns, but its rows have {values.shape[1]} numbers")
    return columns, values


_MESSAGE = 200


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
