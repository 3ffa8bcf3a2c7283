"""Labels as codes 0..K-1 of a sorted tuple of classes.

A class is spelled in one way wherever it comes from: whole numbers are integers (1, "1" and 1.0 alike), truth values
"false" and "true", dates "2026-01-31" (with the time of day where one is not midnight), all else is text as it stands.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.data.raw import listed
from lcml.errors import DataError

GAPS = frozenset(("NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "#NA", "#N/A", "#N/A N/A", "<NA>"))
"""Texts that stand for a gap, in features and labels of text files."""

WHOLE_NUMBER = re.compile(r"\s*(-?(?:0|[1-9]\d*))(\.0*)?\s*")
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
CODE = re.compile(r"\s*(\+\d.*|[+-]?0\d.*)")
"""A leading zero or a plus says that digits are a code and no number: "01" is not "1"."""

TRUTH = {"false": "false", "true": "true"}
_INT64 = np.iinfo(np.int64)


def code_labels(
    labels: NDArray[Any], source: str, classes: Sequence[int | str] | None = None
) -> tuple[tuple[int | str, ...], NDArray[np.int64]]:
    """The classes, sorted, and the code of every label: its position among them.

    Text that is whole numbers throughout, none with a leading zero or a plus, is whole numbers; those beyond 64 bits
    are text. With `classes` (a model's) labels are coded by those.

    Raises DataError for a label outside `classes`, a missing one, and for numbers that are not whole.
    """
    distinct, codes = _distinct(labels, source)
    as_text = classes is not None and any(isinstance(name, str) for name in classes)
    values = spelled(distinct, source, as_text=as_text)
    known = tuple(sorted(set(values), key=lambda value: (isinstance(value, str), value)))
    if classes is not None:
        known = tuple(classes)
    position = {_key(value): k for k, value in enumerate(known)}
    unseen = [j for j, value in enumerate(values) if _key(value) not in position]
    if unseen:
        row = int(np.flatnonzero(codes == unseen[0])[0])
        raise DataError(
            f"{source}: row {row} has the label {values[unseen[0]]!r}, which was not in training (rows count from 0); "
            f"the classes are {listed(known)}: drop such rows or train on them"
        )
    table = np.array([position[_key(value)] for value in values], np.int64)
    return known, table[codes.reshape(-1)]


def spelled(distinct: NDArray[Any], source: str, *, as_text: bool = False) -> list[int | str]:
    """Distinct labels as Python ints or, where one of them or `as_text` wants it, text; DataError as `code_labels`."""
    kind = distinct.dtype.kind
    if kind == "b":
        return ["true" if value else "false" for value in distinct]
    if kind == "M":
        return _dates(distinct, source)
    if kind in "iu":
        text = [str(int(value)) for value in distinct]
    elif kind == "f":
        if not np.isfinite(distinct).all():
            raise DataError(f"{source}: a label is missing or not finite; drop those rows")
        text = [np.format_float_positional(value) for value in distinct]
    elif kind in "UO":
        text = [str(value) for value in distinct]
    else:
        raise DataError(f"{source}: labels must be whole numbers or text; found type {distinct.dtype}")
    gaps = [value for value in text if value in GAPS]
    among_numbers = all(NUMBER.fullmatch(value) for value in text if value not in GAPS)
    if not all(map(str.strip, text)) or (gaps and among_numbers):
        raise DataError(f"{source}: a label is missing ({(gaps or ['empty text'])[0]}); drop those rows")
    if (kind in "UO" and as_text) or any(map(CODE.fullmatch, text)):
        return _truth(text)
    whole = [WHOLE_NUMBER.fullmatch(value) for value in text]
    if all(whole):
        numbers = [int(match[1]) for match in whole if match]
        beyond = any(not _INT64.min <= number <= _INT64.max for number in numbers)
        return [str(number) for number in numbers] if as_text or beyond else list(numbers)
    if all(map(NUMBER.fullmatch, text)):
        culprit = next(value for value, match in zip(text, whole, strict=True) if not match)
        raise DataError(
            f"{source}: the label {culprit} is not a whole number; a measured quantity cannot be a class: "
            "choose another target or divide it into classes"
        )
    return _truth(text)


def _distinct(labels: NDArray[Any], source: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The different labels, and which of them every label is."""
    if labels.dtype.kind == "S":
        try:
            labels = np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{source}: labels are bytes that are no text in UTF-8 ({error}); decode them") from error
    if labels.dtype.kind == "O":
        types = {type(label) for label in labels.tolist()}
        if types == {bool}:
            labels = labels.astype(bool)
        elif types != {str}:
            raise DataError(
                f"{source}: labels must be whole numbers or text; found a mixture: make them one of the two"
            )
    distinct, codes = np.unique(labels, return_inverse=True)
    return distinct, codes


def _truth(text: list[str]) -> list[int | str]:
    """Text as it stands, but truth values, where there is nothing else, in small letters."""
    small = [value.strip().lower() for value in text]
    return list(small) if all(value in TRUTH for value in small) else list(text)


def _key(value: int | str) -> int | str:
    """What makes two labels one class: models trained before may spell truth values with a capital."""
    return TRUTH.get(value.lower(), value) if isinstance(value, str) else value


def _dates(distinct: NDArray[Any], source: str) -> list[int | str]:
    if np.isnat(distinct).any():
        raise DataError(f"{source}: a label is missing; drop those rows")
    if (distinct == distinct.astype("datetime64[D]")).all():
        return [str(value) for value in distinct.astype("datetime64[D]")]
    return [str(value).replace("T", " ") for value in distinct]
