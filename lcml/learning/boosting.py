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
from lcml.inputs.columns import Column
from lcml.inputs.knots import even_cuts

MOST_STEPS = 63
"""Thresholds of a number that trees may ask for."""

LEAST_BRANCH = 5.0
"""Weight of the examples on either side of a question."""

LEAF_L2 = 5.0

_COLUMNS_AT_ONCE = 1 << 18
"""Rows times columns from which on a histogram is worth several threads."""


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """A column cut for questions: bin b of a number lies below steps[b], of a category it is that one; the last is that
    of gaps. n_bins: with that of gaps."""

    steps: FloatArray
    is_category: bool
    n_bins: int

    def of(self, codes: FloatArray) -> NDArray[np.uint8]:
        """(n,) the bins of the codes of `Column.codes`."""
        gap = np.isnan(codes)
        if self.is_category:
            found = np.minimum(np.where(gap, 0, codes), self.n_bins - 2)
        else:
            found = np.searchsorted(self.steps, np.where(gap, 0, codes), side="right")
        return np.where(gap, self.n_bins - 1, found).astype(np.uint8)


def cut_column(column: Column, codes: FloatArray, weights: FloatArray) -> ColumnBins:
    """Where trees may cut a column: between its values, evenly where they are many; all but the rarest categories."""
    if column.kind == "category":
        return ColumnBins(np.zeros(0), True, min(len(column.categories), MOST_STEPS) + 2)
    known = ~np.isnan(codes)
    if column.kind == "ordinal":
        known &= codes < len(column.categories)
    values, place = np.unique(codes[known], return_inverse=True)
    if len(values) <= MOST_STEPS + 1:
        steps = (values[1:] + values[:-1]) / 2
    else:
        steps = even_cuts(values, np.bincount(place, weights[known]).astype(np.float64), MOST_STEPS)[1:]
    return ColumnBins(steps, False, len(steps) + 2)


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

    def add_tree(self) -> GrownTree:
        """Grow a tree for the logits as they are, and add what its leaves say."""
        residual, curvature = self.residuals(self.logits)
        n_sets = residual.shape[1]
        weights = self.weights[:, None]
        statistics = np.concatenate([residual * weights, curvature * weights, weights], axis=1)
        node = np.zeros(len(residual), np.int32)
        levels = []
        for depth in range(self.depth):
            level = self._best_level(self._histogram(node, statistics, 1 << depth))
            node = descend(level, self.columns[level.column], self.bins[level.column], node)
            levels.append(level)
        n_leaves = 1 << self.depth
        sums = np.stack([np.bincount(node, of_one, n_leaves) for of_one in statistics.T[: 2 * n_sets]], axis=1)
        tree = GrownTree(tuple(levels), -self.rate * sums[:, :n_sets] / (sums[:, n_sets:] + LEAF_L2))
        self.logits += tree.values[node]
        self.trees.append(tree)
        return tree

    def _histogram(self, node: NDArray[np.int32], statistics: FloatArray, n_nodes: int) -> FloatArray:
        """(n_columns, n_nodes, n_bins, n_statistics)."""
        shape = (len(self.bins), n_nodes, int(self._n_bins.max()), statistics.shape[1])
        kernel = self.backend.histogram
        if kernel is None:
            flat = node * shape[2] + self.bins  # (n_columns, n_rows)
            size = n_nodes * shape[2]
            sums = [[np.bincount(of_column, one, size) for one in statistics.T] for of_column in flat]
            return np.array(sums).transpose(0, 2, 1).reshape(shape)
        out = np.zeros(shape)
        n_columns = len(self.bins)
        step = 1 if self.bins.size > _COLUMNS_AT_ONCE else n_columns
        parts = [slice(first, first + step) for first in range(0, n_columns, step)]
        list(self.backend.map(lambda part: kernel(self.bins[part], node, statistics, out[part]), parts))
        return out

    def _best_level(self, sums: FloatArray) -> Level:
        """The column, and what its contexts ask, that gain most."""
        n_sets = (sums.shape[3] - 1) // 2
        columns = np.arange(len(sums))
        of_gap = sums[columns, :, self._n_bins - 1]
        total = sums[0].sum(axis=1)  # (n_nodes, n_statistics), the same for every column
        present = sums[..., -1] > 0
        without = sums.copy()
        without[columns, :, self._n_bins - 1] = 0
        below = np.cumsum(without, axis=2)
        below[self._is_category] = sums[self._is_category]
        is_number = ~self._is_category[:, None, None]
        has_gap = (of_gap[..., -1] > 0)[..., None] & is_number
        in_range = np.arange(sums.shape[2]) < (self._n_bins - 1 + self._is_category)[:, None, None]
        gains = np.full((2, *sums.shape[:3]), -np.inf)
        for gap_below, no in enumerate((below, below + of_gap[:, :, None])):
            if gap_below and not has_gap.any():
                break
            yes = total[:, None] - no
            gain = _score(no, n_sets) + _score(yes, n_sets) - _score(total, n_sets)[:, None]
            right = present & in_range & (no[..., -1] >= LEAST_BRANCH) & (yes[..., -1] >= LEAST_BRANCH)
            gains[gap_below] = np.where(right & (has_gap if gap_below else True), gain, -np.inf)
        best = gains.transpose(1, 2, 0, 3).reshape(len(sums), total.shape[0], -1)
        place = best.argmax(axis=2)
        gain = np.maximum(np.take_along_axis(best, place[..., None], axis=2)[..., 0], 0)
        column = int(gain.sum(axis=1).argmax())
        gap_below, cut = np.divmod(place[column], sums.shape[2])
        return Level(column, gain[column] > 0, cut, gap_below == 0)


def descend(level: Level, column: ColumnBins, bins: NDArray[np.uint8], node: NDArray[np.int32]) -> NDArray[np.int32]:
    """(n,) the contexts of the next level."""
    cut = level.cut[node]
    yes = bins == cut if column.is_category else bins > cut
    if not column.is_category:
        yes = np.where(bins == column.n_bins - 1, level.gap_above[node], yes)
    return (2 * node + (yes & level.asks[node])).astype(np.int32)


def leaves(tree: GrownTree, columns: Sequence[ColumnBins], bins: NDArray[np.uint8]) -> NDArray[np.int32]:
    """(n,) the leaf of every row of bins (n_columns, n)."""
    node = np.zeros(bins.shape[1], np.int32)
    for level in tree.levels:
        node = descend(level, columns[level.column], bins[level.column], node)
    return node


def _score(sums: FloatArray, n_sets: int) -> FloatArray:
    """R^2 / (H + l2), summed over the weight sets, along the last axis."""
    squares = sums[..., :n_sets] ** 2 / (sums[..., n_sets : 2 * n_sets] + LEAF_L2)
    found: FloatArray = squares.sum(axis=-1)
    return found
