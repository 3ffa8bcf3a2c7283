"""The encoder of tables: a column is one variable of several values, told by Boolean ones.

    number, date   knots k_0 < ... < k_m:  q_j = min(max((x - k_{j-1}) / (k_j - k_{j-1}), 0), 1),  j = 1..m
    ordinal        the same of a category's rank, with a knot at every rank
    category       q_c = 1 where x is category c, else 0; the rare ones share one, as do those never seen; of two
                   categories the second is enough
    step           q = 1 where x >= t, of a number, date or rank, and of a gap where the step says so: what trees ask
    gap            q = 1 where the value is missing; its column's other variables are then 0

All q before the interval that holds x are 1, all behind it 0. So "above knots 1..j and not above j+1..m" has the
probability max(0, 1 - |x - k_j| / width), the hat function at knot j; these sum to 1, and the worlds that the order of
the knots forbids have probability 0: a circuit's literals make a piecewise linear additive model, and a split of two
columns' variables a bilinear patch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.errors import DataError, FormatError
from lcml.inputs.encoding import Encoder, State
from lcml.inputs.rows import check_features
from lcml.inputs.table import RawColumn, Table, days, spelling

ColumnKind: TypeAlias = Literal["number", "date", "ordinal", "category"]

OTHER = "(other)"
"""How the rare categories are called together."""

_TEXT = np.dtypes.StringDType()


@dataclass(frozen=True, eq=False)
class Column:
    """What one column becomes. knots: of all kinds but category; categories: of an ordinal by rank, of a category the
    most frequent first; gaps: whether it may be missing; shared: whether rare categories have a variable; steps: where
    trees ask whether a value is as large; gap_above: for every step, whether a gap counts as above it."""

    name: str
    kind: ColumnKind
    knots: FloatArray
    categories: tuple[str, ...] = ()
    gaps: bool = False
    shared: bool = False
    steps: FloatArray = field(default_factory=lambda: np.zeros(0))
    gap_above: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))

    @property
    def is_text(self) -> bool:
        """Whether its values are texts, not numbers or dates."""
        return self.kind in ("category", "ordinal")

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

    def variable_names(self) -> Iterator[str]:
        """What each variable says; a number's at the middle of its interval."""
        if self.gaps:
            yield f"{self.name} is missing"
        if self.kind == "category":
            shown = [*map(repr, self.categories[self.spared :]), *([OTHER] if self.shared else [])]
            yield from (f"{self.name} is {category}" for category in shown)
        else:
            yield from (f"{self.name} >= {self.shown(edge)}" for edge in self.edges)
        for step, above in zip(self.steps, self.gap_above, strict=True):
            yield f"{self.name} >= {self.shown(step)}" + " or missing" * bool(above and self.gaps)

    @property
    def edges(self) -> FloatArray:
        """(m,) where a number's variables are one half."""
        return (self.knots[:-1] + self.knots[1:]) / 2

    def shown(self, value: float) -> str:
        """A value of the column as people write it."""
        if self.kind == "ordinal":
            return repr(self.categories[int(np.ceil(value))])
        if self.kind == "date":
            return str(np.datetime64(0, "s") + np.timedelta64(round(value * 86400), "s")).removesuffix("T00:00:00")
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"

    def codes(self, raw: RawColumn, values: NDArray[Any]) -> FloatArray:
        """(n,) the values of a raw column as this one numbers them: numbers, days, ranks or places among `categories`
        (their number, where it is none of them), NaN for a gap. Raises DataError with the row of what cannot be one."""
        numbers = values.astype(np.float64)
        if self.is_text:
            texts, place = texts_of(raw, numbers)
            known = {category: i for i, category in enumerate(self.categories)}
            table = np.array([known.get(text, len(known)) for text in texts] + [np.nan])
            return table[place]
        if raw.kind == "text":
            read = np.array([_read(self, text) for text in raw.texts] + [np.nan])
            place = np.where(np.isnan(numbers), len(raw.texts), numbers).astype(np.intp)
            if (wrong := np.flatnonzero(np.isnan(read[place]) & ~np.isnan(numbers))).size:
                text = raw.texts[place[wrong[0]]]
                raise DataError(f"row {wrong[0]}, column {self.name!r} holds {text!r}; expected a {self.kind}")
            return read[place]
        if self.kind == "number" and raw.kind == "date":
            raise DataError(f"column {self.name!r} holds dates; expected numbers")
        return numbers

    def encode(self, codes: FloatArray, out: NDArray[np.float32]) -> None:
        """The probabilities (n, n_outputs) of `codes`. Raises DataError for a gap where training had none."""
        gap = np.isnan(codes)
        if self.kind == "ordinal":
            gap = gap | (codes == len(self.categories))
        if self.gaps:
            out[:, 0] = gap
        elif self.kind != "category" and gap.any():
            raise DataError(
                f"row {np.flatnonzero(gap)[0]}, column {self.name!r} is missing or unknown, but it never was in "
                "training; fill it in, or train with examples where it is missing (rows count from 0)"
            )
        first_step = self.gaps + self.n_values
        out[:, first_step:] = np.where(gap[:, None], self.gap_above, codes[:, None] >= self.steps)
        own = out[:, int(self.gaps) : first_step]
        if self.kind == "category":
            first = self.spared
            last = len(self.categories) - (not self.shared)  # those beyond have no variable
            code = np.where(gap, -1 if self.gaps else len(self.categories), codes).astype(np.intp)
            own[:] = 0
            row = np.flatnonzero((code >= first) & (code <= last))
            own[row, code[row] - first] = 1
        else:
            x = np.where(gap, self.knots[0], codes)[:, None]
            own[:] = np.clip((x - self.knots[:-1]) / np.diff(self.knots), 0, 1)

    def at(self, shares: FloatArray) -> FloatArray:
        """Codes at these shares (n,) of the column's range; below it a gap where there may be one."""
        if self.is_text:
            codes = np.clip(np.floor(shares * len(self.categories)), 0, len(self.categories) - (self.kind == "ordinal"))
        else:
            codes = self.knots[0] + shares * (self.knots[-1] - self.knots[0])
        return np.where(shares < 0, np.nan, codes) if self.gaps else codes


@dataclass(frozen=True, eq=False)
class ColumnsEncoder(Encoder):
    """One variable or several for every column of a table, see the module. Raw examples are a `Table`, whose columns
    are found by name, or of numbers alone a matrix (n, d) in the order of `columns`, NaN for a gap."""

    columns: tuple[Column, ...]
    kind: ClassVar[str] = "columns"

    @property
    def n_features(self) -> int:
        return len(self.columns)

    @property
    def n_outputs(self) -> int:
        return sum(column.n_outputs for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def blocks(self) -> NDArray[np.intp]:
        """(d + 1,): column i has the variables blocks[i] to blocks[i + 1] - 1."""
        return np.cumsum([0, *(column.n_outputs for column in self.columns)])

    @property
    def is_additive(self) -> NDArray[np.bool_]:
        """(n_outputs,) whether a variable is one of the additive part: none of a step."""
        return np.concatenate(
            [np.arange(column.n_outputs) < column.n_outputs - len(column.steps) for column in self.columns]
        )

    def encode(self, x: Any) -> NDArray[np.float32]:
        """Probabilities (n, n_outputs), float32, of raw examples; DataError for a column that is not there, one of
        another kind, and a gap where training had none."""
        codes = self.codes(x)
        q = np.empty((len(codes), self.n_outputs), np.float32)
        for column, first, of_column in zip(self.columns, self.blocks, codes.T, strict=False):
            column.encode(of_column, q[:, first : first + column.n_outputs])
        return q

    def codes(self, x: Any) -> FloatArray:
        """(n, d) `Column.codes` of raw examples; DataError for a column that is not there or of another kind."""
        table = self._table(x)
        place = {name: j for j, name in enumerate(table.names)}
        if missing := [name for name in self.names if name not in place]:
            raise DataError(f"the column {missing[0]!r} is not there; give the columns trained on, in any order")
        raw = table.values[:]
        codes = np.empty((len(table), len(self.columns)))
        for number, column in enumerate(self.columns):
            j = place[column.name]
            codes[:, number] = column.codes(table.columns[j], raw[:, j])
        return codes

    def _table(self, x: Any) -> Table:
        if isinstance(x, Table):
            return x
        if texts := [column.name for column in self.columns if column.is_text]:
            culprit = texts[0]
            raise DataError(f"the column {culprit!r} holds categories; give a table or data frame, not a matrix")
        matrix = check_features(x, self.n_features, self.names, gaps=True)
        return Table(tuple(RawColumn(name) for name in self.names), matrix)

    def variable_names(self, feature_names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.variable_names())

    def inputs_at(self, shares: FloatArray) -> Table:
        return self.examples(np.stack([column.at(shares[:, j]) for j, column in enumerate(self.columns)], axis=1))

    def examples(self, codes: FloatArray) -> Table:
        """Raw examples with these codes (n, n_features), as `Column.codes` reads them back."""
        unknown = "(unknown)"  # a text that no category is spelled as
        raw = [
            RawColumn(c.name, "text", (*c.categories, unknown))
            if c.is_text
            else RawColumn(c.name, "date" if c.kind == "date" else "number")
            for c in self.columns
        ]
        return Table(tuple(raw), codes)

    def state(self) -> State:
        """names, kinds, categories (text), gaps, shared (0 or 1), knots, and how many knots and categories each column
        has."""
        columns = self.columns
        return {
            "names": np.array([c.name for c in columns], _TEXT),
            "kinds": np.array([c.kind for c in columns], _TEXT),
            "gaps": np.array([c.gaps for c in columns], np.int32),
            "shared": np.array([c.shared for c in columns], np.int32),
            "knots": np.concatenate([np.zeros(0), *(c.knots for c in columns)]),
            "n_knots": np.array([len(c.knots) for c in columns], np.int32),
            "steps": np.concatenate([np.zeros(0), *(c.steps for c in columns)]),
            "gap_above": np.concatenate([np.zeros(0, np.int32), *(c.gap_above.astype(np.int32) for c in columns)]),
            "n_steps": np.array([len(c.steps) for c in columns], np.int32),
            "categories": np.array([text for c in columns for text in c.categories], _TEXT),
            "n_categories": np.array([len(c.categories) for c in columns], np.int32),
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        try:
            knots = np.split(np.asarray(state["knots"], np.float64), np.cumsum(state["n_knots"]))
            texts = np.split(np.asarray(state["categories"]), np.cumsum(state["n_categories"]))
            steps = np.split(np.asarray(state["steps"], np.float64), np.cumsum(state["n_steps"]))
            above = np.split(np.asarray(state["gap_above"]) != 0, np.cumsum(state["n_steps"]))
            several = (state[name].tolist() for name in ("names", "kinds", "gaps", "shared"))
            columns = [
                Column(name, kind, knots[j], tuple(texts[j].tolist()), bool(gaps), bool(shared), steps[j], above[j])
                for j, (name, kind, gaps, shared) in enumerate(zip(*several, strict=True))
            ]
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise FormatError(
                f"not the columns of a table ({error}); the file is damaged or newer than this lcml"
            ) from error
        for column in columns:
            _check(column)
        if len({column.name for column in columns}) < len(columns) or len(knots) != len(columns) + 1:
            raise FormatError("the columns of a table need names of their own; the file is damaged")
        return cls(tuple(columns))


def texts_of(raw: RawColumn, numbers: FloatArray) -> tuple[Sequence[str], NDArray[np.intp]]:
    """The different texts of a raw column, and the place of every value among them, behind the last for a gap."""
    gap = np.isnan(numbers)
    if raw.kind == "text":
        return raw.texts, np.where(gap, len(raw.texts), numbers).astype(np.intp)
    distinct, place = np.unique(numbers[~gap], return_inverse=True)
    found = np.full(len(numbers), len(distinct), np.intp)
    found[~gap] = place
    bare = Column(raw.name, "date" if raw.kind == "date" else "number", np.zeros(0))
    return [bare.shown(v) if raw.kind == "date" else spelling(float(v)) for v in distinct], found


def _read(column: Column, text: str) -> float:
    """The number, or the days, that a text says; NaN where it says none."""
    try:
        return float(days(np.array([text], "datetime64"))[0]) if column.kind == "date" else float(text)
    except ValueError:
        return np.nan


def _check(column: Column) -> None:
    knots = column.knots
    finite = bool(np.isfinite([*knots, *column.steps]).all()) and len(column.steps) == len(column.gap_above)
    right = column.kind in get_args(ColumnKind) and finite and (np.diff(knots) > 0).all()
    if (
        not right
        or (column.kind == "category") != (not len(knots))
        or (column.kind == "ordinal" and not column.categories)
    ):
        raise FormatError(f"column {column.name!r}: {column.kind} of {len(knots)} knots; the file is damaged")
