"""Boosting: small trees, one after another, each for what the model so far gets wrong.

A level of a tree asks one column; every context (node) has its own threshold, category or gap to ask for. With
residuals r and curvatures h of the loss (`lcml.model.head`), and weighted sums R, H of them, a context gains by asking

    sum over weight sets of   R_yes^2 / (H_yes + l2) + R_no^2 / (H_no + l2) - R^2 / (H + l2)

and the column of a level is the one whose contexts gain most together. A leaf adds -rate R / (H + l2) to the logits.
Sources: Friedman, Greedy Function Approximation, 2001; the second order is Chen & Guestrin's, KDD 2016, section 2.2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
            return np.where(gap, self.gap, np.where(codes < self.n_categories, codes, self.n_bins - 1)).astype(np.uint8)
        return np.where(gap, self.gap, np.searchsorted(self.steps, codes, side="right")).astype(np.uint8)


def cut_column(column: Column, codes: FloatArray, weights: FloatArray) -> ColumnBins:
    """Where trees may cut a column: between its values, evenly where they are many, and at every category."""
    if column.kind == "category":
        n_categories = len(column.categories) + column.shared
        return ColumnBins(np.zeros(0), n_categories + column.gaps + 1, n_categories)
    known = np.isfinite(codes)
    values, place = np.unique(codes[known], return_inverse=True)
    if len(values) <= MOST_STEPS + 1:
        steps = (values[1:] + values[:-1]) / 2
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


@dataclass(eq=False)
class Booster:
    """Boosting on some rows: bins (n_columns, n_rows), weights (n_rows,); residuals: from logits (n_rows, n_sets) to
    residuals and curvatures, each (n_rows, n_sets); logits change as trees are added."""

    columns: Sequence[ColumnBins]
    bins: NDArray[np.uint8]
    weights: FloatArray
    residuals: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    logits: FloatArray
    depth: int
    rate: float
    backend: Backend
    trees: list[GrownTree] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._n_bins = np.array([column.n_bins for column in self.columns])
        self._is_category = np.array([column.is_category for column in self.columns])
        self._looked_at = np.arange(len(self.columns))

    def add_tree(self) -> GrownTree:
        """Grow a tree for the logits as they are, and add what its leaves say."""
        residual, curvature = self.residuals(self.logits)
        n_sets = residual.shape[1]
        weights = self.weights[:, None]
        self._l2 = PRIOR_ROWS * float(np.average(curvature.mean(axis=1), weights=self.weights))
        statistics = np.concatenate([residual * weights, curvature * weights, weights], axis=1)
        node = np.zeros(len(residual), np.int32)
        levels = []
        if len(self.columns) > WIDE and len(self.trees) % RENEWED == 0:
            gain = self._search(np.arange(len(self.columns)), node, statistics, 1)[0]
            self._looked_at = np.sort(np.argsort(-gain[:, 0], kind="stable")[:MOST_COLUMNS])
        for depth in range(self.depth):
            level = self._best_level(node, statistics, 1 << depth)
            node = descend(level, self.columns[level.column], self.bins[level.column], node)
            levels.append(level)
        n_leaves = 1 << self.depth
        sums = np.stack([np.bincount(node, of_one, n_leaves) for of_one in statistics.T[: 2 * n_sets]], axis=1)
        tree = GrownTree(tuple(levels), -self.rate * sums[:, :n_sets] / (sums[:, n_sets:] + self._l2))
        self.logits += tree.values[node]
        self.trees.append(tree)
        return tree

    def _best_level(self, node: NDArray[np.int32], statistics: FloatArray, n_nodes: int) -> Level:
        """The column, and what its contexts ask, that gain most."""
        gain, place = self._search(self._looked_at, node, statistics, n_nodes)
        best = int(gain.sum(axis=1).argmax())
        gap_below, cut = np.divmod(place[best], MOST_BINS)
        return Level(int(self._looked_at[best]), gain[best] > 0, cut, gap_below == 0)

    def _search(
        self, columns: NDArray[np.intp], node: NDArray[np.int32], statistics: FloatArray, n_nodes: int
    ) -> tuple[FloatArray, NDArray[np.int64]]:
        """`best_questions` of some columns, ascending."""
        kernel = self.backend.best_questions or best_questions
        n_columns, size = len(columns), len(columns) * len(node)
        gain, place = np.zeros((n_columns, n_nodes)), np.zeros((n_columns, n_nodes), np.int64)

        def search(of: slice) -> None:
            some = of if n_columns == len(self.columns) else columns[of]
            of_some = self.bins[some], node, statistics, self._n_bins[some], self._is_category[some]
            kernel(*of_some, self._l2, LEAST_BRANCH, gain[of], place[of])

        step = -(-n_columns // _SLICES) if size > _MANY else n_columns
        list(self.backend.map(search, [slice(first, first + step) for first in range(0, n_columns, step)]))
        return gain, place


def best_questions(
    bins: NDArray[np.uint8],
    node: NDArray[np.int32],
    statistics: FloatArray,
    n_bins: NDArray[np.int64],
    is_category: NDArray[np.bool_],
    l2: float,
    least: float,
    gain: FloatArray,
    place: NDArray[np.int64],
) -> None:
    """What the best question of every column and context gains, at least 0, and its place: the cut, plus MOST_BINS
    where a gap is below it.

    bins (n_columns, n_rows); node (n_rows,) contexts; statistics (n_rows, 2 n_sets + 1): weighted residuals, curvatures
    and weights; least: weight of either side; gain, place (n_columns, n_nodes) are filled.
    """
    (n_columns, n_nodes), width = gain.shape, int(n_bins.max())
    n_sets, size = (statistics.shape[1] - 1) // 2, n_nodes * width
    flat = node * width + bins
    sums = np.array([[np.bincount(of_column, one, size) for one in statistics.T] for of_column in flat])
    sums = sums.transpose(0, 2, 1).reshape(n_columns, n_nodes, width, -1)

    def score(sides: FloatArray) -> FloatArray:
        found: FloatArray = (sides[..., :n_sets] ** 2 / (sides[..., n_sets : 2 * n_sets] + l2)).sum(axis=-1)
        return found

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


def descend(level: Level, column: ColumnBins, bins: NDArray[np.uint8], node: NDArray[np.int32]) -> NDArray[np.int32]:
    """(n,) the contexts of the next level."""
    of_bin, cut = np.arange(column.n_bins), level.cut[:, None]
    yes = of_bin == cut if column.is_category else of_bin > cut
    if not column.is_category:
        yes[:, column.gap] = level.gap_above
    below = (2 * np.arange(len(cut))[:, None] + (yes & level.asks[:, None])).astype(np.int32)
    found: NDArray[np.int32] = below.ravel()[node * column.n_bins + bins]
    return found


def leaves(tree: GrownTree, columns: Sequence[ColumnBins], bins: NDArray[np.uint8]) -> NDArray[np.int32]:
    """(n,) the leaf of every row of bins (n_columns, n)."""
    node = np.zeros(bins.shape[1], np.int32)
    for level in tree.levels:
        node = descend(level, columns[level.column], bins[level.column], node)
    return node
