"""MLflow's forms of a table as values by the names of columns, for models that take a tensor per column."""

import csv
import io
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from lcml_serving.errors import BadRequestError, UnprocessableError, short
from lcml_serving.features import check_rows
from lcml_serving.signature import Signature

GAPS = frozenset(
    ("", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "#NA", "#N/A", "#N/A N/A", "<NA>")
)
"""Cells of a CSV that are missing, as lcml reads them; not in a column that has such a category."""

Columns = Mapping[str, Sequence[Any]]


def csv_columns(body: bytes, model: Signature, max_rows: int) -> Columns:
    """Texts, or None for a gap, by column of a CSV with a line of names.

    Raises BadRequestError where it is not CSV in UTF-8, UnprocessableError for lines of different lengths.
    """
    try:
        lines = csv.reader(io.StringIO(body.decode("utf-8-sig"), newline=""), strict=True)
        names = next(lines, [])
        rows = list(itertools.islice((line for line in lines if line), max_rows + 1))
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequestError(f"the body is not CSV in UTF-8: {error}") from None
    if not names:
        raise BadRequestError("the CSV is empty; expected a line of column names, then a line of values per row")
    found = _by_column(names, rows, "the CSV", max_rows)
    categories = {column.name: column.categories for column in model.columns}
    return {
        name: [None if cell in GAPS and cell not in categories.get(name, ()) else cell for cell in cells]
        for name, cells in found.items()
    }


def json_columns(content: Any, form: str, model: Signature, max_rows: int) -> Columns:
    """Values by column of dataframe_split, of dataframe_records or instances (objects, one per row), or of inputs
    (an object of columns, or objects, one per row); a column that only some rows have is missing in the others.

    Raises BadRequestError and UnprocessableError.
    """
    if form == "dataframe_split":
        if not isinstance(content, dict) or not {"columns", "data"} <= content.keys() <= {"columns", "index", "data"}:
            raise BadRequestError("dataframe_split: expected an object of columns, data and, if you like, index")
        names, rows = content["columns"], content["data"]
        if not isinstance(names, list) or not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise BadRequestError("dataframe_split: expected a list of names as columns, of lists as data")
        return _by_column([str(name) for name in names], rows, form, max_rows)
    if form == "inputs" and isinstance(content, dict):
        if wrong := [name for name, values in content.items() if not isinstance(values, list)]:
            raise BadRequestError(f"inputs: expected a list of values for column {short(wrong[0])}")
        return {
            name: [v[0] if isinstance(v, list) and len(v) == 1 else v for v in own] for name, own in content.items()
        }
    if not isinstance(content, list) or not all(isinstance(record, dict) for record in content):
        raise BadRequestError(f"{form}: expected a list of objects, one per row, with the columns by name")
    if not content:
        return {column.name: [] for column in model.columns}
    check_rows(len(content), max_rows)
    return {name: [record.get(name) for record in content] for name in dict.fromkeys(itertools.chain(*content))}


def _by_column(names: Sequence[str], rows: Sequence[Sequence[Any]], what: str, max_rows: int) -> Columns:
    if len(set(names)) < len(names):
        raise UnprocessableError("a column is given twice")
    check_rows(len(rows), max_rows)
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise UnprocessableError(f"{what} names {len(names)} columns, but row {number} has {len(row)} values")
    return {name: [row[j] for row in rows] for j, name in enumerate(names)}
