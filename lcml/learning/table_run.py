"""A model of a table under way: its additive part, then its trees, one after another, by sums over rows."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from lcml.arrays import FloatArray
from lcml.backend import Backend
from lcml.backend.spread import Spread, added
from lcml.backend.threads import single_threaded_blas
from lcml.learning.additive import Theta, minimise_additive, start_of
from lcml.learning.boosting import Booster, ColumnBins, GrownTree
from lcml.learning.table_rows import Key, TableRows


class Run:
    """The run with this number of the rows; `cuts`: where trees may cut the columns; chooses: whether rows choose."""

    @single_threaded_blas()
    def __init__(
        self,
        rows: Spread[TableRows],
        number: int,
        cuts: Sequence[ColumnBins],
        rate: float,
        backend: Backend,
        should_stop: Callable[[], bool],
        *,
        chooses: bool = True,
    ) -> None:
        self._rows, self._number, self._should_stop, self._chooses = rows, number, should_stop, chooses
        self._booster_of = partial(Booster, cuts, rate=rate, backend=backend)
        self._key: Key | None = None
        self._totals = self._sum(TableRows.totals, number)
        self._last = self._start = self.theta = start_of(*self._totals)
        self.trees: list[GrownTree] = []

    @property
    def logits(self) -> FloatArray:
        """(n_train, n_sets) of the rows that train."""
        return np.concatenate(self._rows.ask(TableRows.training_logits, self._number, self._key))

    def reached(self, threshold: float) -> tuple[float, float]:
        """Accuracy and log-loss of the rows that train."""
        ((right, lost),) = self._sum(TableRows.right_and_lost, self._number, self._key, threshold)
        total = float(self._totals[1])
        return float(right) / total, float(lost) / total

    @single_threaded_blas()
    def fit(self, strength: float) -> None:
        """The additive part with that penalty, from where the last ones point to."""
        of_run = partial(self._sum, TableRows.loss_and_gradient, self._number)
        before, start = self._last, self._start
        last = self._last = minimise_additive(self._totals, of_run, strength, start, should_stop=self._should_stop)
        self._start = Theta(2 * last.weights - before.weights, 2 * last.bias - before.bias)
        if self._chooses:
            self.choosing_logits = np.concatenate(self._rows.ask(TableRows.choosing_logits, self._number, self._last))

    def keep(self) -> None:
        """What was fitted last is the best so far."""
        self.theta = self._last
        self._rows.tell(TableRows.keep, self._number, self.theta)

    def boosted(self, depth: int) -> "Run":
        """The same after the additive part, to grow trees of that depth."""
        other = copy.copy(self)
        other.boost(depth)
        return other

    def boost(self, depth: int) -> None:
        """Go over to trees."""
        key = self._key = (self._number, depth)
        self._rows.tell(TableRows.boost, key)
        self._booster = self._booster_of(
            partial(self._sum, TableRows.sums, key), lambda tree: self._rows.tell(TableRows.add, key, tree), depth
        )
        self.trees = self._booster.trees

    @single_threaded_blas()
    def grow(self, n_trees: int) -> list[FloatArray]:
        """So many trees more, fewer where time is over; the logits of the rows that choose, after each."""
        assert self._key is not None
        first = len(self.trees)
        new = [self._booster.add_tree() for _ in range(n_trees) if not self._should_stop()]
        if not (self._chooses and new):
            return []
        curves = self._rows.ask(TableRows.curve, self._key, first)
        return [np.concatenate(logits) for logits in zip(*curves, strict=True)]

    def _sum(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        return added(self._rows.ask(function, *args))
