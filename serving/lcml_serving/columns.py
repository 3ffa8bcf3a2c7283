"""The columns of a table model: what the metadata lcml.columns say of each, and the values of a request as its inputs.

number     a number, or a text that says one                                   NaN where it is missing
date       days since 1970-01-01, or an ISO 8601 text                          NaN
category   a text; of a number that is whole no point; truth values as texts   ""
ordinal    the same
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lcml_serving.errors import UnprocessableError, short
from lcml_serving.features import check_rows
from lcml_serving.signature import Array, Column, Signature

_NAMED = 12  # of the columns that are missing
_TRUTH = ("false", "true")
_BASIC = re.compile(r"^(\d{4})(\d{2})(\d{2})$")  # ISO 8601 without dashes
_DATE = re.compile(rf"\d{{4}}-\d{{2}}|{_BASIC.pattern}")


def to_inputs(given: Mapping[str, Sequence[Any] | Array], model: Signature, max_rows: int) -> tuple[Array, ...]:
    """The model's inputs (rows, 1) of the values of columns by their names; others are ignored. None and NaN are gaps.

    Raises UnprocessableError for columns that are missing or of several lengths, too many rows, and a value that a
    column cannot be; rows count from 0.
    """
    require_named([column.name for column in model.columns], given)
    n_rows = len(given[model.columns[0].name])
    check_rows(n_rows, max_rows)
    for column in model.columns:
        if (found := len(given[column.name])) != n_rows:
            raise UnprocessableError(f"column {short(column.name)} has {found} rows, others have {n_rows}")
    return tuple(
        (_texts if spec.datatype == "BYTES" else _numbers)(column, given[column.name], spec.dtype)[:, None]
        for column, spec in zip(model.columns, model.inputs, strict=True)
    )


def require_named(names: Iterable[str], given: Container[str]) -> None:
    """Raises UnprocessableError where columns of those names are missing."""
    if missing := [name for name in names if name not in given]:
        named = ", ".join(map(short, missing[:_NAMED])) + ", ..." * (len(missing) > _NAMED)
        raise UnprocessableError(f"{len(missing)} columns are missing: {named}")


def _numbers(column: Column, values: Sequence[Any] | Array, dtype: np.dtype[Any]) -> Array:
    """(rows,) numbers, or days."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        wide = values.astype(np.float64)
    else:
        wide = np.array([_number(column, row, value) for row, value in enumerate(values)], np.float64)
    with np.errstate(over="ignore"):
        found = wide.astype(dtype)
    if (wrong := np.flatnonzero(np.isinf(found))).size:
        raise _refused(column, int(wrong[0]), f"expected a finite {dtype} number, found {values[wrong[0]]}")
    return found


def _number(column: Column, row: int, value: Any) -> float:
    if value is None:
        return np.nan
    try:
        if isinstance(value, str) and column.kind == "date" and _DATE.match(value):  # not "today", not "2024"
            date = np.datetime64(_BASIC.sub(r"\1-\2-\3", value).removesuffix("Z"))
            return float((date - np.datetime64(0, "D")) / np.timedelta64(1, "D"))
        if isinstance(value, str | int | float):
            return float(value)
    except (ValueError, OverflowError):
        pass
    expected = "days since 1970-01-01, or a date such as 2024-05-31" if column.kind == "date" else "a number"
    raise _refused(column, row, f"expected {expected}, found {short(value)}")


def _texts(column: Column, values: Sequence[Any] | Array, dtype: np.dtype[Any]) -> Array:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    known = frozenset(column.categories)
    return np.array(["" if v is None else _text(column, known, row, v) for row, v in enumerate(listed)], dtype)


def _text(column: Column, known: frozenset[str], row: int, value: Any) -> str:
    """As lcml spells a value of a column of text."""
    if isinstance(value, bool):
        return _TRUTH[value]
    if isinstance(value, str):
        if value in known:
            return value
        if value.lower() in known and value.lower() in _TRUTH:
            return value.lower()
        if _is_broken(value):
            raise _refused(column, row, f"expected a text, found half of a surrogate pair in {short(value)}")
        whole = value.removesuffix(".0")  # as a column of whole numbers with gaps is written
        return whole if whole in known else value
    if isinstance(value, float) and value != value:
        return ""
    if isinstance(value, int | float):
        return str(int(value)) if value == value // 1 else str(value)
    raise _refused(column, row, f"expected a text, found {short(value)}")


def _is_broken(text: str) -> bool:
    """Whether JSON spelled half of a character, which UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _refused(column: Column, row: int, why: str) -> UnprocessableError:
    return UnprocessableError(f"row {row}, column {short(column.name)}: {why}")
