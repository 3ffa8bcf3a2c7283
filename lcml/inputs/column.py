"""One column of a table as a model sees it: a number between knots, or one of several categories."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.errors import DataError, FormatError
from lcml.inputs.encoding import short_number
from lcml.inputs.table import TRUTH, RawColumn, days, spelling

ColumnKind: TypeAlias = Literal["number", "date", "ordinal", "category"]

_NO_CATEGORY = -1.0
_DATE = re.compile(r"\d{4}-\d{2}")  # numpy reads "today" and "20240531", as a year, too
_FAR = 1e8  # days from 1970 on that a date may be away


@dataclass(frozen=True, eq=False)
class Column:
    """What one column becomes. knots: of all kinds but category; categories: of an ordinal by rank, of a category the
    most frequent first; gaps: whether it may be missing; shared: whether rare categories have a variable; steps: where
    trees ask whether a value is as large; gap_above: for every step, whether a gap counts as above it; fractions:
    whether training examples had values that are not whole numbers, or dates with a time."""

    name: str
    kind: ColumnKind
    knots: FloatArray
    categories: tuple[str, ...] = ()
    gaps: bool = False
    shared: bool = False
    steps: FloatArray = field(default_factory=lambda: np.zeros(0))
    gap_above: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    fractions: bool = False

    @property
    def is_text(self) -> bool:
        """Whether its values are texts, not numbers or dates."""
        return self.kind in ("category", "ordinal")

    @property
    def was_text(self) -> bool:
        """Whether some category can only have been read as a text, such as 007 or A4."""
        return not all(map(_is_value, self.categories))

    @property
    def spared(self) -> int:
        """Categories without a variable: the first of two."""
        return int(self.kind == "category" and len(self.categories) == 2 and not self.gaps and not self.shared)

    @property
    def n_values(self) -> int:
        """Variables of the additive part beside that of a gap."""
        return len(self.categories) + self.shared - self.spared if self.kind == "category" else len(self.knots) - 1

    @property
    def n_outputs(self) -> int:
        return self.gaps + self.n_values + len(self.steps)

    @property
    def filled(self) -> float:
        """The code that is encoded where there is a gap."""
        if self.kind == "category":
            return _NO_CATEGORY if self.gaps else float(len(self.categories))
        middle = (len(self.knots) - 1) // 2, len(self.knots) // 2
        return float(self.knots[0] if self.gaps else self.knots[list(set(middle))].mean())

    def codes(self, raw: RawColumn, values: NDArray[Any]) -> FloatArray:
        """(n,) the values of a raw column as this one numbers them: numbers, days, ranks or places among `categories`
        (their number, where it is none of them), NaN for a gap, and for what no rank is known of. Raises DataError with
        what cannot be one."""
        numbers = values.astype(np.float64)
        if self.is_text:
            texts, place = texts_of(raw, numbers)
            unknown = len(self.categories) if self.kind == "category" else np.nan
            known = {category: i for i, category in enumerate(self.categories)}
            return np.array([known.get(text, unknown) for text in texts] + [np.nan])[place]
        if raw.kind == "text":
            place = np.where(np.isnan(numbers), len(raw.texts), numbers).astype(np.intp)
            read = np.array([_read(self, text) for text in raw.texts] + [np.nan])
            if (wrong := np.flatnonzero(np.isnan(read[place]) & ~np.isnan(numbers))).size:
                text, more = raw.texts[place[wrong[0]]], f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
                raise DataError(f"column {self.name!r} holds {text!r}{more}; expected a {self.kind}, or nothing")
            return read[place]
        if self.kind == "number" and raw.kind == "date":
            raise DataError(f"column {self.name!r} holds dates; expected numbers")
        return numbers

    def at(self, shares: FloatArray) -> FloatArray:
        """Codes at these shares (n,) of the column's range; below it a gap where there may be one."""
        if self.is_text:
            codes = np.clip(np.floor(shares * len(self.categories)), 0, len(self.categories) - (self.kind == "ordinal"))
        else:
            codes = self.knots[0] + shares * (self.knots[-1] - self.knots[0])
        return np.where(shares < 0, np.nan, codes) if self.gaps else codes

    @property
    def shown_values(self) -> list[str]:
        """Its knots or categories as people write them."""
        if self.is_text:
            return [shown_text(category) for category in self.categories]
        return shown(self.kind, self.knots)

    def check(self) -> None:
        """Raises FormatError where the parts do not go together."""
        knots, n = self.knots, len(self.categories)
        right = {
            "category": not len(knots) and self.n_outputs > 0,
            "ordinal": np.array_equal(knots, np.arange(n)) and self.n_outputs > 0,
        }.get(self.kind, bool(len(knots) and not n and self.n_outputs))
        with np.errstate(over="ignore"):
            widths = np.diff(knots)
        if (
            self.kind not in get_args(ColumnKind)
            or not (right and np.isfinite(knots).all() and np.isfinite(widths).all() and (widths > 0).all())
            or not (np.isfinite(self.steps).all() and len(self.steps) == len(self.gap_above))
            or (len(self.steps) and self.kind == "category")
            or len({"", *self.categories}) <= n
            or (self.shared and self.kind != "category")
        ):
            raise FormatError(f"column {self.name!r}: no {self.kind} of {len(knots)} knots and {n} categories")


def texts_of(raw: RawColumn, numbers: FloatArray) -> tuple[Sequence[str], NDArray[np.intp]]:
    """The different texts of a raw column, and the place of every value among them, behind the last for a gap."""
    gap = np.isnan(numbers)
    if raw.kind == "text":
        return raw.texts, np.where(gap, len(raw.texts), numbers).astype(np.intp)
    distinct, place = np.unique(numbers[~gap], return_inverse=True)
    found = np.full(len(numbers), len(distinct), np.intp)
    found[~gap] = place
    return [shown_date(v) if raw.kind == "date" else spelling(v) for v in distinct.tolist()], found


def shown(kind: ColumnKind, values: FloatArray) -> list[str]:
    """Numbers or dates as people write them, in as many digits as tell them apart."""
    if kind == "date":
        return [shown_date(value) for value in values.tolist()]
    for digits in range(4, 18):
        texts = [short_number(value, digits) for value in values.tolist()]
        if len(set(texts)) == len(texts):
            break
    return texts


def shown_date(value: float) -> str:
    """A date, with the time to the second where it is not midnight."""
    seconds = round(min(max(value, -_FAR), _FAR) * 86400)
    return str(np.datetime64(0, "s") + np.timedelta64(seconds, "s")).removesuffix("T00:00:00")


def shown_text(category: str) -> str:
    """A category in quotes, but for truth values."""
    return category if category in TRUTH else repr(category)


def _is_value(text: str) -> bool:
    """Whether lcml spells a number, a truth value or a date so."""
    try:
        return text in TRUTH or (shown_date(_days_of(text)) if _DATE.match(text) else spelling(float(text))) == text
    except ValueError:
        return False


def _days_of(text: str) -> float:
    return float(days(np.array([text], "datetime64"))[0])


def _read(column: Column, text: str) -> float:
    """The number, or the days, that a text says; NaN where it says none."""
    try:
        if column.kind != "date":
            return float(text)
        return _days_of(text) if _DATE.match(text) else np.nan
    except ValueError:
        return np.nan
