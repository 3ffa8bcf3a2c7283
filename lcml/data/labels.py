"""Labels as codes 0..K-1 of a sorted tuple of classes."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.data.raw import listed
from lcml.errors import DataError

WHOLE_NUMBER = re.compile(r"\s*([+-]?\d+)(\.0*)?\s*")
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


def code_labels(
    labels: NDArray[Any], source: str, classes: Sequence[int | str] | None = None
) -> tuple[tuple[int | str, ...], NDArray[np.int64]]:
    """The classes, sorted, and the code of every label: its position among them.

    Whole numbers (also as text or floats) are integer classes, other text is text, truth values are "false" and
    "true". With `classes` (a model's) labels are coded by those.

    Raises DataError for a label outside `classes`, an empty one, and for numbers that are not whole.
    """
    if labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels):
        raise DataError(f"{source}: labels must be whole numbers or text; found a mixture: make them one of the two")
    distinct, codes = np.unique(labels, return_inverse=True)
    as_text = classes is not None and any(isinstance(name, str) for name in classes)
    values = _values(distinct, source, as_text)
    known = tuple(sorted(set(values), key=lambda value: (isinstance(value, str), value)))
    if classes is not None:
        known = tuple(classes)
    position = {value: k for k, value in enumerate(known)}
    unseen = [j for j, value in enumerate(values) if value not in position]
    if unseen:
        row = int(np.flatnonzero(codes == unseen[0])[0])
        raise DataError(
            f"{source}: row {row} has the label {values[unseen[0]]!r}, which was not in training (rows count from 0); "
            f"the classes are {listed(known)}: drop such rows or train on them"
        )
    table = np.array([position[value] for value in values], np.int64)
    return known, table[codes.reshape(-1)]


def _values(distinct: NDArray[Any], source: str, as_text: bool) -> list[int | str]:
    """Distinct labels as Python ints or strings."""
    kind = distinct.dtype.kind
    if kind == "b":
        return ["true" if value else "false" for value in distinct]
    if kind in "iu":
        return [str(value) if as_text else int(value) for value in distinct]
    if kind not in "fUO":
        raise DataError(f"{source}: labels must be whole numbers or text; found type {distinct.dtype}")
    text = [str(value) for value in distinct]
    if any(not value.strip() for value in text) or (kind == "f" and not np.isfinite(distinct).all()):
        raise DataError(f"{source}: a label is missing or not finite; drop those rows")
    if kind == "f":
        text = [np.format_float_positional(value) for value in distinct]
    elif as_text:
        return list(text)
    whole = [WHOLE_NUMBER.fullmatch(value) for value in text]
    if all(whole):
        numbers = [int(match[1]) for match in whole if match]
        return [str(number) for number in numbers] if as_text else list(numbers)
    if all(NUMBER.fullmatch(value) for value in text):
        culprit = next(value for value, match in zip(text, whole, strict=True) if not match)
        raise DataError(
            f"{source}: the label {culprit} is not a whole number; a measured quantity cannot be a class: "
            "choose another target or divide it into classes"
        )
    return list(text)
