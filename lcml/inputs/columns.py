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

A gap where training had none is taken for the median knot, which is about that of the values, or an unknown category;
an unknown category for a rare one, where there were none for none of the categories, of two for the more frequent one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.errors import DataError, FormatError
from lcml.inputs.column import Column
from lcml.inputs.encoding import Encoder, State, Words
from lcml.inputs.phrases import phrase, value_in_words
from lcml.inputs.rows import check_features, chunks
from lcml.inputs.table import RawColumn, Table

UNKNOWN = "(unknown)"
"""A text that no category is spelled as."""

_TEXT = np.dtypes.StringDType()


@dataclass(frozen=True, eq=False)
class ColumnsEncoder(Encoder):
    """One variable or several for every column of a table, see the module. Raw examples are a `Table`, whose columns
    are found by name, or of numbers and dates alone a matrix (n, d) in the order of `columns`, NaN for a gap."""

    columns: tuple[Column, ...]
    kind: ClassVar[str] = "columns"

    @property
    def n_features(self) -> int:
        return len(self.columns)

    @property
    def n_outputs(self) -> int:
        return int(self.blocks[-1])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def blocks(self) -> NDArray[np.intp]:
        """(d + 1,): column i has the variables blocks[i] to blocks[i + 1] - 1."""
        return np.cumsum([0, *(column.n_outputs for column in self.columns)])

    @property
    def is_additive(self) -> NDArray[np.bool_]:
        """(n_outputs,) whether a variable is one of the additive part: none of a step."""
        additive = np.ones(self.n_outputs, bool)
        additive[self._variables.steps] = False
        return additive

    def encode(self, x: Any, *, gaps: bool = False) -> NDArray[np.float32]:
        """Probabilities (n, n_outputs), float32, of raw examples, with `gaps` NaN for those of a gap where training had
        none; DataError for a column that is not there or of another kind."""
        codes = self.codes(x, gaps=gaps)
        q = np.empty((len(codes), self.n_outputs), np.float32)
        of = self._variables
        column_of = np.repeat(np.arange(self.n_features), np.diff(self.blocks))
        for rows in chunks(q):
            part = codes[rows]
            missing = np.isnan(part)
            q[rows, of.gaps] = missing[:, column_of[of.gaps]]
            at, gap = part[:, column_of[of.steps]], missing[:, column_of[of.steps]]
            q[rows, of.steps] = np.where(gap, of.gap_above, at >= of.step)
            part = np.where(missing, of.filled, part)
            q[rows, of.categories] = part[:, column_of[of.categories]] == of.category
            with np.errstate(over="ignore"):  # of infinity where knots are near to each other
                q[rows, of.between] = np.clip((part[:, column_of[of.between]] - of.knot) / of.width, 0, 1)
            if gaps:
                q[rows][(missing & ~of.had_gaps)[:, column_of]] = np.nan
        return q

    def codes(self, x: Any, *, gaps: bool = False) -> FloatArray:
        """(n, d) what `Column.codes` says of every column, what stands for a gap where training had none, unless
        `gaps` are to stay; DataError as `encode`."""
        table = self._table(x)
        place = {name: j for j, name in enumerate(table.names)}
        if missing := [name for name in self.names if name not in place]:
            raise DataError(f"the column {missing[0]!r} is not there; give the columns trained on, in any order")
        found: FloatArray = table.values[:][:, [place[name] for name in self.names]].astype(np.float64)
        for j, column in enumerate(self.columns):
            raw = table.columns[place[column.name]]
            if raw.kind != column.kind:
                found[:, j] = column.codes(raw, found[:, j])
        return found if gaps else np.where(np.isnan(found) & ~self._variables.had_gaps, self._variables.filled, found)

    def examples(self, codes: FloatArray) -> Table:
        """Raw examples with these codes (n, n_features), as `Column.codes` reads them back."""
        raw = [
            RawColumn(c.name, "text", (*c.categories, UNKNOWN))
            if c.is_text
            else RawColumn(c.name, "date" if c.kind == "date" else "number")
            for c in self.columns
        ]
        return Table(tuple(raw), codes)

    def _table(self, x: Any) -> Table:
        if isinstance(x, Table):
            return x
        if texts := [column.name for column in self.columns if column.is_text]:
            raise DataError(f"the column {texts[0]!r} holds categories; give a table or data frame, not a matrix")
        matrix = check_features(x, self.n_features, self.names, gaps=True)
        return Table(tuple(RawColumn(name) for name in self.names), matrix)

    @cached_property
    def _variables(self) -> "_Variables":
        columns, starts = self.columns, self.blocks[:-1].tolist()
        firsts = [start + column.gaps for start, column in zip(starts, columns, strict=True)]
        numbers = [(first, column) for first, column in zip(firsts, columns, strict=True) if len(column.knots)]
        named = [(first, column) for first, column in zip(firsts, columns, strict=True) if column.kind == "category"]
        stepped = [(first + column.n_values, column) for first, column in numbers]
        return _Variables(
            filled=np.array([column.filled for column in columns]),
            had_gaps=np.array([column.gaps for column in columns]),
            gaps=_runs((start, int(column.gaps)) for start, column in zip(starts, columns, strict=True)),
            between=_runs((first, column.n_values) for first, column in numbers),
            knot=_joined([column.knots[:-1] for _, column in numbers]),
            width=_joined([np.diff(column.knots) for _, column in numbers]),
            steps=_runs((first, len(column.steps)) for first, column in stepped),
            step=_joined([column.steps for _, column in stepped]),
            gap_above=_joined([column.gap_above for _, column in stepped]) > 0,
            categories=_runs((first, column.n_values) for first, column in named),
            category=_runs((column.spared, column.n_values) for _, column in named),
        )

    def variable_names(self, feature_names: Sequence[str]) -> tuple[str, ...]:
        words = self.words(feature_names)
        return tuple(words([variable])[0] for variable in range(self.n_outputs))

    def words(self, feature_names: Sequence[str]) -> Words:
        """A text per column: 'age is missing', '30 <= age < 45', "state is one of 'a', 'b'"."""
        n, starts = self.n_outputs, self.blocks

        def say(literals: Iterable[int]) -> list[str]:
            found: dict[int, tuple[set[int], set[int]]] = {}
            for literal in sorted(literals, key=lambda i: i % n):
                j = int(np.searchsorted(starts, literal % n, side="right")) - 1
                found.setdefault(j, (set(), set()))[literal >= n].add(literal % n - int(starts[j]))
            return [phrase(self.columns[j], feature_names[j], *sides) for j, sides in found.items()]

        return say

    def in_words(self, x: Any, feature_names: Sequence[str]) -> list[str]:
        """What every column of the first raw example holds: 'age is 37', "state is 'a'", 'since is missing'."""
        codes = self.codes(x, gaps=True)[0].tolist()
        return [value_in_words(*of) for of in zip(self.columns, feature_names, codes, strict=True)]

    def inputs_at(self, shares: FloatArray) -> Table:
        return self.examples(np.stack([column.at(shares[:, j]) for j, column in enumerate(self.columns)], axis=1))

    def state(self) -> State:
        """names, kinds, categories (text), gaps, shared, gap_above (0 or 1), knots, steps; how many of knots, steps and
        categories each column has; and fractions (0 or 1), where one is."""
        columns = self.columns
        fractions = {"fractions": np.array([c.fractions for c in columns], np.int32)}
        return (fractions if any(c.fractions for c in columns) else {}) | {
            "names": np.array([c.name for c in columns], _TEXT),
            "kinds": np.array([c.kind for c in columns], _TEXT),
            "gaps": np.array([c.gaps for c in columns], np.int32),
            "shared": np.array([c.shared for c in columns], np.int32),
            "knots": _joined([c.knots for c in columns]),
            "n_knots": np.array([len(c.knots) for c in columns], np.int32),
            "steps": _joined([c.steps for c in columns]),
            "gap_above": _joined([c.gap_above for c in columns]).astype(np.int32),
            "n_steps": np.array([len(c.steps) for c in columns], np.int32),
            "categories": np.array([text for c in columns for text in c.categories], _TEXT),
            "n_categories": np.array([len(c.categories) for c in columns], np.int32),
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        try:
            knots = _parts(np.asarray(state["knots"], np.float64), state["n_knots"])
            texts = _parts(np.asarray(state["categories"]), state["n_categories"])
            steps = _parts(np.asarray(state["steps"], np.float64), state["n_steps"])
            above = _parts(np.asarray(state["gap_above"]) != 0, state["n_steps"])
            fractions = (np.asarray(state.get("fractions", np.zeros(len(state["names"])))) != 0).tolist()
            of_one = (state[name].tolist() for name in ("names", "kinds", "gaps", "shared"))
            columns = [
                Column(str(name), kind, own_knots, tuple(map(str, own_texts)), bool(gaps), bool(shared), *more)
                for name, kind, gaps, shared, own_knots, own_texts, *more in zip(
                    *of_one, knots, texts, steps, above, fractions, strict=True
                )
            ]
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise FormatError(f"not the columns of a table ({error}); the file is damaged") from error
        for column in columns:
            column.check()
        if not columns or len({column.name for column in columns}) < len(columns):
            raise FormatError("expected columns of a table with names of their own; the file is damaged")
        return cls(tuple(columns))


class _Variables(NamedTuple):
    """Which variables of an encoder are computed how; what follows a list of them belongs to these, one by one.

    filled: by column, the code encoded where there is a gap; had_gaps: by column, whether training had some.
    """

    filled: FloatArray
    had_gaps: NDArray[np.bool_]
    gaps: NDArray[np.intp]
    between: NDArray[np.intp]
    knot: FloatArray
    width: FloatArray
    steps: NDArray[np.intp]
    step: FloatArray
    gap_above: NDArray[np.bool_]
    categories: NDArray[np.intp]
    category: NDArray[np.intp]


def _runs(runs: Iterable[tuple[int, int]]) -> NDArray[np.intp]:
    """first, first + 1, ... of every (first, length)."""
    return np.array([number for first, length in runs for number in range(first, first + length)], np.intp)


def _joined(arrays: Sequence[NDArray[Any]]) -> FloatArray:
    return np.concatenate([np.zeros(0), *arrays])


def _parts(values: NDArray[Any], sizes: NDArray[Any]) -> list[NDArray[Any]]:
    """The values in runs of these sizes."""
    if values.ndim != 1 or sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise ValueError("sizes of lists must be whole numbers of 0 or more")
    *parts, rest = np.split(values, np.cumsum(sizes, dtype=np.int64))
    if len(rest) or sizes.sum(dtype=np.int64) != len(values):
        raise ValueError(f"lists of {sizes.sum(dtype=np.int64)} values in all, but {len(values)} are there")
    return parts
