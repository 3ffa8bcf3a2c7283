"""Boosting: small trees, one after another, each for what the model so far gets wrong.

A level of a tree asks one column; every context (node) has its own threshold, category or gap to ask for. With
residuals r and curvatures h of the loss (`lcml.model.head`), and weighted sums R, H of them, a context gains by asking

    sum over weight sets of   R_yes^2 / (H_yes + l2) + R_no^2 / (H_no + l2) - R^2 / (H + l2)

and the column of a level is the one whose contexts gain most together. A leaf adds -rate R / (H + l2) to the logits.
Sources: Friedman, Greedy Function Approximation, 2001; the second order is Chen & Guestrin's, KDD 2016, section 2.2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Backend
from lcml.inputs.column import Column
from lcml.inputs.knots import WIDE, even_cuts

MOST_STEPS = 63
"""Thresholds of a number that trees may ask for."""

LEAST_BRANCH = 5.0
"""Weight of the examples on either side of a question."""

PRIOR_ROWS = 50.0
"""The l2 of a leaf is the curvature of so many average examples: one number that suits any number of classes."""

MOST_BINS = 256
"""Of a column: a byte tells them."""

MOST_COLUMNS, RENEWED = 512, 10
"""In tables of more than `WIDE` columns trees look at so many: those that gain most by one question, found again after
so many trees."""

_MANY, _SLICES = 1 << 19, 16
"""From so many rows times columns on, columns are worth several threads, in so many pieces of work."""


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """A column cut for questions. Of a number bin b lies below steps[b], the last but one above all; the last is that
    of gaps. Of a category the bins are the categories, that which the rare ones share, that of gaps, each where the
    column has one, and last what has no variable and cannot be asked for."""

    steps: FloatArray
    n_bins: int
    n_categories: int = 0
    """With what the rare ones share."""
    spared: bool = False
    """Whether the first of two is what has no variable: unknown ones are read as it."""

    @property
    def is_category(self) -> bool:
        return self.n_categories > 0

    @property
    def gap(self) -> int:
        """The bin of gaps."""
        return self.n_categories if self.is_category else self.n_bins - 1

    def of(self, codes: FloatArray) -> NDArray[np.uint8]:
        """(n,) the bins of the codes of `Column.codes`."""
        gap = np.isnan(codes)
        if self.is_category:
            unknown = 0 if self.spared else self.n_bins - 1
            return np.where(gap, self.gap, np.where(codes < self.n_categories, codes, unknown)).astype(np.uint8)
        return np.where(gap, self.gap, np.searchsorted(self.steps, codes, side="right")).astype(np.uint8)


def cut_column(column: Column, codes: FloatArray, weights: FloatArray) -> ColumnBins:
    """Where trees may cut a column: between its values, evenly where they are many, and at every category."""
    if column.kind == "category":
        n_categories = len(column.categories) + column.shared
        return ColumnBins(np.zeros(0), n_categories + column.gaps + 1, n_categories, bool(column.spared))
    known = np.isfinite(codes)
    values, place = np.unique(codes[known], return_inverse=True)
    if len(values) <= MOST_STEPS + 1:
        steps = values[1:] / 2 + values[:-1] / 2  # their sum may be too large for a float
    else:
        steps = even_cuts(values, np.bincount(place, weights[known]).astype(np.float64), MOST_STEPS)[1:]
    return ColumnBins(steps, len(steps) + 2)


@dataclass(frozen=True, eq=False)
class Level:
    """What the contexts of a level ask of one column: whether the bin is above `cut` (of a category: is it), or a gap
    where gap_above. asks (n_contexts,): whether a context asks at all."""

    column: int
    asks: NDArray[np.bool_]
    cut: NDArray[np.intp]
    gap_above: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class GrownTree:
    """Levels, and what every leaf (2^depth, n_sets) adds to the logits. Of context a, 2 a + 1 is where the answer is
    yes."""

    levels: tuple[Level, ...]
    values: FloatArray

    @cached_property
    def n_leaves(self) -> int:
        """Of different values."""
        return len(np.unique(self.values, axis=0))


class BoostedRows:
    """Some rows that trees are grown for: bins (n_columns, n_rows), weights (n_rows,); residuals: from logits
    (n_rows, n_sets) to residuals and curvatures, each (n_rows, n_sets); logits change as trees are added."""

    def __init__(
        self,
        columns: Sequence[ColumnBins],
        bins: NDArray[np.uint8],
        weights: FloatArray,
        residuals: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
        logits: FloatArray,
        backend: Backend,
    ) -> None:
        self.columns, self.bins, self.weights, self.residuals = columns, bins, weights, residuals
        self.logits, self.backend = logits, backend
        self._n_bins = np.array([column.n_bins for column in columns])
        self._statistics: FloatArray | None = None
        self._of_all: tuple[float, float] = 0.0, 0.0
        self._nodes: list[NDArray[np.int32]] = []
        self._above = np.zeros((0, 0, 0, 0))

    def sums(self, levels: Sequence[Level], columns: NDArray[np.intp]) -> tuple[float, float, FloatArray]:
        """Under the levels of a tree so far: the sums of the curvatures, averaged over the sets, and of the weights of
        all rows, and the `bin_sums` of some columns, ascending."""
        statistics, node = self._under(levels)
        n_columns, n_nodes = len(columns), 1 << len(levels)
        found = np.zeros((n_columns, n_nodes, int(self._n_bins[columns].max()), statistics.shape[1]))
        above, self._above = self._above, found
        rows, fewer = np.arange(len(node)), np.zeros(0, np.intp)
        if above.shape[:2] == (n_columns, n_nodes // 2):  # of two contexts that of more rows is what the other leaves
            fewer = np.bincount(node, minlength=n_nodes).reshape(-1, 2).argmin(axis=1)
            rows = np.flatnonzero(fewer[node >> 1] == node & 1)
        kernel = self.backend.bin_sums or bin_sums

        def add_up(of: slice) -> None:
            bins = self.bins[of if n_columns == len(self.bins) else columns[of]]
            kernel(bins, rows, node, statistics, found[of])

        size = n_columns * len(rows)
        step = -(-n_columns // _SLICES) if size > _MANY else n_columns
        list(self.backend.map(add_up, [slice(first, first + step) for first in range(0, n_columns, step)]))
        for a, side in enumerate(fewer):
            np.subtract(above[:, a], found[:, 2 * a + side], out=found[:, 2 * a + 1 - side])
        return (*self._of_all, found)

    def add(self, tree: GrownTree) -> None:
        """Go on from what the tree says."""
        self.logits += tree.values[self._under(tree.levels)[1]]
        self._statistics, self._nodes, self._above = None, [], self._above[:0]

    def _under(self, levels: Sequence[Level]) -> tuple[FloatArray, NDArray[np.int32]]:
        """Weighted residuals, curvatures and weights for the logits as they are, and (n_rows,) the contexts."""
        if self._statistics is None:
            residual, curvature = self.residuals(self.logits)
            weights = self.weights[:, None]
            self._statistics = np.concatenate([residual * weights, curvature * weights, weights], axis=1)
            self._nodes = [np.zeros(len(residual), np.int32)]
            self._of_all = float(self.weights @ curvature.mean(axis=1)), float(self.weights.sum())
        for level in levels[len(self._nodes) - 1 :]:
            column = level.column
            self._nodes.append(descend(level, self.columns[column], self.bins[column], self._nodes[-1]))
        return self._statistics, self._nodes[len(levels)]


class Booster:
    """Boosting by sums over rows, wherever these are: sums as `BoostedRows` has them, of all rows; add: tells the rows
    of a new tree."""

    def __init__(
        self,
        columns: Sequence[ColumnBins],
        sums: Callable[[Sequence[Level], NDArray[np.intp]], Sequence[Any]],
        add: Callable[[GrownTree], object],
        depth: int,
        rate: float,
        backend: Backend,
    ) -> None:
        self.columns, self.depth, self.rate, self.backend = columns, depth, rate, backend
        self.trees: list[GrownTree] = []
        self._sums, self._add = sums, add
        self._n_bins = np.array([column.n_bins for column in columns])
        self._is_category = np.array([column.is_category for column in columns])
        self._looked_at = np.arange(len(columns))

    def add_tree(self) -> GrownTree:
        """Grow a tree for the logits as they are, and add what its leaves say."""
        if len(self.columns) > WIDE and len(self.trees) % RENEWED == 0:
            gain = self._search(np.arange(len(self.columns)), ())[1]
            self._looked_at = np.sort(np.argsort(-gain[:, 0], kind="stable")[:MOST_COLUMNS])
        levels: list[Level] = []
        for _ in range(self.depth):
            level, of_bins = self._best_level(levels)
            levels.append(level)
        yes = answers(level, self.columns[level.column])
        sums = np.stack([~yes, yes], axis=1).astype(np.float64) @ of_bins[:, : yes.shape[1]]
        residuals, curvatures = np.split(sums.reshape(2 * len(yes), -1)[:, :-1], 2, axis=1)
        tree = GrownTree(tuple(levels), -self.rate * residuals / (curvatures + self._l2))
        self._add(tree)
        self.trees.append(tree)
        return tree

    def _best_level(self, levels: Sequence[Level]) -> tuple[Level, FloatArray]:
        """The column, and what its contexts ask, that gain most; its `bin_sums`."""
        sums, gain, place = self._search(self._looked_at, levels)
        best = int(gain.sum(axis=1).argmax())
        gap_below, cut = np.divmod(place[best], MOST_BINS)
        level = Level(int(self._looked_at[best]), gain[best] > 0, cut, gap_below == 0)
        return level, sums[best]

    def _search(
        self, columns: NDArray[np.intp], levels: Sequence[Level]
    ) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
        """`bin_sums` and `best_questions` of some columns, ascending."""
        kernel = self.backend.best_questions or best_questions
        curvature, weight, sums = self._sums(levels, columns)
        self._l2 = PRIOR_ROWS * float(curvature) / float(weight)
        gain, place = np.zeros(sums.shape[:2]), np.zeros(sums.shape[:2], np.int64)
        kernel(sums, self._n_bins[columns], self._is_category[columns], self._l2, LEAST_BRANCH, gain, place)
        return sums, gain, place


def bin_sums(
    bins: NDArray[np.uint8], rows: NDArray[np.intp], node: NDArray[np.int32], statistics: FloatArray, sums: FloatArray
) -> None:
    """Add up statistics (n_rows, n_statistics) of the rows with these numbers by column, context and bin.

    bins (n_columns, n_rows); node (n_rows,) contexts; sums (n_columns, n_nodes, n_bins, n_statistics) are filled.
    """
    _, n_nodes, width, _ = sums.shape
    for j, flat in enumerate(node[rows] * width + bins[:, rows]):
        of_column = [np.bincount(flat, one, n_nodes * width) for one in statistics[rows].T]
        sums[j] = np.stack(of_column, axis=1).reshape(sums.shape[1:])


def best_questions(
    sums: FloatArray,
    n_bins: NDArray[np.int64],
    is_category: NDArray[np.bool_],
    l2: float,
    least: float,
    gain: FloatArray,
    place: NDArray[np.int64],
) -> None:
    """What the best question of every column and context gains, at least 0, and its place: the cut, plus MOST_BINS
    where a gap is below it.

    sums: those of `bin_sums` of weighted residuals, curvatures and weights, (..., 2 n_sets + 1); least: weight of
    either side; gain, place (n_columns, n_nodes) are filled.
    """
    n_columns, _, width, n_statistics = sums.shape
    n_sets = (n_statistics - 1) // 2

    def score(sides: FloatArray) -> FloatArray:
        return np.asarray((sides[..., :n_sets] ** 2 / (sides[..., n_sets : 2 * n_sets] + l2)).sum(axis=-1))

    columns = np.arange(n_columns)
    of_gap = sums[columns, :, n_bins - 1]
    total = sums.sum(axis=2, keepdims=True)
    values = sums.copy()
    values[columns, :, n_bins - 1] = 0
    below = np.where(is_category[:, None, None, None], sums, np.cumsum(values, axis=2))
    asked = (sums[..., -1] > 0) & (np.arange(width) < (n_bins - 1)[:, None, None])
    with_gap = (of_gap[..., -1:] > 0) & ~is_category[:, None, None]
    gains = []
    for no, is_right in ((below, asked), (below + of_gap[:, :, None], asked & with_gap)):
        is_right = is_right & (no[..., -1] >= least) & ((total - no)[..., -1] >= least)
        gains.append(np.where(is_right, score(no) + score(total - no) - score(total), 0))
    both = np.concatenate(gains, axis=2)
    gap_below, cut = np.divmod(both.argmax(axis=2), width)
    place[:] = gap_below * MOST_BINS + cut
    gain[:] = np.maximum(both.max(axis=2), 0)


def answers(level: Level, column: ColumnBins) -> NDArray[np.bool_]:
    """(n_contexts, n_bins) what every bin answers, no where a context does not ask."""
    of_bin, cut = np.arange(column.n_bins), level.cut[:, None]
    yes = of_bin == cut if column.is_category else of_bin > cut
    if not column.is_category:
        yes[:, column.gap] = level.gap_above
    return np.asarray(yes & level.asks[:, None])


def descend(level: Level, column: ColumnBins, bins: NDArray[np.uint8], node: NDArray[np.int32]) -> NDArray[np.int32]:
    """(n,) the contexts of the next level."""
    below = 2 * np.arange(len(level.cut), dtype=np.int32)[:, None] + answers(level, column)
    return np.asarray(below.ravel()[node * column.n_bins + bins])


def leaves(tree: GrownTree, columns: Sequence[ColumnBins], bins: NDArray[np.uint8]) -> NDArray[np.int32]:
    """(n,) the leaf of every row of bins (n_columns, n)."""
    node = np.zeros(bins.shape[1], np.int32)
    for level in tree.levels:
        node = descend(level, columns[level.column], bins[level.column], node)
    return node
