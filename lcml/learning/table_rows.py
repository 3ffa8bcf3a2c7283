"""Rows of a table, and what learning asks of them: sums over the rows, and the logits of those that choose.

A run is a model under way, by its number: the rows of that fold choose, all others train; no fold has the number of a
run that all rows train. Of a run and a depth (`Key`) trees are grown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Backend
from lcml.inputs.column import Column
from lcml.learning.additive import AdditiveDesign, AdditiveFit, Theta, masses
from lcml.learning.boosting import BoostedRows, ColumnBins, GrownTree, Level, leaves
from lcml.model.head import HEADS, Link
from lcml.model.metrics import right_and_lost

Key: TypeAlias = tuple[int, int]


@dataclass(frozen=True, eq=False)
class _Run:
    """train, choosing: numbers of rows; theta, logits: what trees go on from."""

    train: NDArray[np.intp]
    choosing: NDArray[np.intp]
    problem: AdditiveFit
    theta: Theta
    logits: FloatArray


@dataclass(eq=False)
class _Boosted:
    """choosing: after how many trees, and the logits of the rows that choose."""

    rows: BoostedRows
    trees: list[GrownTree] = field(default_factory=list)
    choosing: tuple[int, FloatArray] | None = None


class TableRows:
    """Rows by their codes (n, d), see `Column.codes`, class codes (n,), weights (n,) and folds (n,)."""

    def __init__(
        self,
        codes: FloatArray,
        labels: NDArray[np.int64],
        weights: FloatArray,
        folds: NDArray[np.int64],
        *,
        columns: Sequence[Column],
        link: Link,
        n_classes: int,
        backend: Backend,
    ) -> None:
        self._codes, self._labels, self.weights, self._folds = codes, labels, weights, folds
        self._columns, self._link, self._head, self._backend = columns, link, HEADS[link], backend
        class_codes = self._head.class_codes(self._head.n_sets(n_classes))
        self._targets = (labels[:, None] == class_codes).astype(np.float64)
        self._runs: dict[int, _Run] = {}
        self._boosted: dict[Key, _Boosted] = {}

    def masses(self, apart: int) -> FloatArray:
        """Those of the rows that train the run `apart`."""
        return masses(self._columns, self._codes, self._training_weights(apart))

    def column(self, j: int, rows: NDArray[np.intp]) -> FloatArray:
        """Codes of one column for some of the rows."""
        return np.asarray(self._codes[rows, j])

    def prepare(self, apart: int, mass: FloatArray | None, cuts: Sequence[ColumnBins]) -> None:
        """Make ready, with the mass of all rows where there are others, and the columns cut so."""
        with self._backend.single_threaded_blas():
            self.design = AdditiveDesign(self._columns, self._codes, self._training_weights(apart), mass)
        by_column = np.ascontiguousarray(self._codes.T)
        self._cuts, self._bins = cuts, np.stack([cut.of(of) for cut, of in zip(cuts, by_column, strict=True)])
        del self._codes

    def totals(self, run: int) -> tuple[FloatArray, ...]:
        return self._run(run).problem.totals()

    def loss_and_gradient(self, run: int, theta: Theta) -> tuple[FloatArray, ...]:
        return self._run(run).problem.loss_and_gradient(theta)

    def choosing_logits(self, run: int, theta: Theta) -> FloatArray:
        """(n_choosing, n_sets) of the additive part."""
        return self.design.logits(theta, self._run(run).choosing)

    def keep(self, run: int, theta: Theta) -> None:
        """Have the run go on from this additive part."""
        self._runs[run] = replace(self._run(run), theta=theta, logits=self.design.logits(theta, self._run(run).train))

    def boost(self, key: Key) -> None:
        """Begin to grow trees."""
        run = self._run(key[0])

        def residuals(logits: FloatArray) -> tuple[FloatArray, FloatArray]:
            p = self._head.inverse_link(np, logits.T).T
            return p - run.problem.targets, p * (1 - p)

        bins = np.ascontiguousarray(self._bins[:, run.train])
        rows = BoostedRows(self._cuts, bins, run.problem.weights, residuals, run.logits.copy(), self._backend)
        self._boosted[key] = _Boosted(rows)

    def sums(self, key: Key, levels: Sequence[Level], columns: NDArray[np.intp]) -> tuple[float, float, FloatArray]:
        return self._boosted[key].rows.sums(levels, columns)

    def add(self, key: Key, tree: GrownTree) -> None:
        self._boosted[key].rows.add(tree)
        self._boosted[key].trees.append(tree)

    def curve(self, key: Key, first: int) -> list[FloatArray]:
        """Logits (n_choosing, n_sets) of the rows that choose, after every tree from the one with that number on."""
        run, of = self._run(key[0]), self._boosted[key]
        if of.choosing is None or of.choosing[0] > first:
            of.choosing = 0, self.design.logits(run.theta, run.choosing)
        start, logits = of.choosing
        bins, found = self._bins[:, run.choosing], []
        for tree in of.trees[start:]:
            logits = logits + tree.values[leaves(tree, self._cuts, bins)]
            found.append(logits)
        of.choosing = len(of.trees), logits
        return found[first - start :]

    def training_logits(self, run: int, key: Key | None) -> FloatArray:
        """(n_train, n_sets) as far as the run has come."""
        return self._run(run).logits if key is None else self._boosted[key].rows.logits

    def right_and_lost(self, run: int, key: Key | None, threshold: float) -> tuple[FloatArray]:
        """`lcml.model.metrics.right_and_lost` of the rows that train, as far as the run has come."""
        train = self._run(run).train
        logits = self.training_logits(run, key)
        return (right_and_lost(logits, self._labels[train], self._link, self.weights[train], threshold),)

    def _training_weights(self, apart: int) -> FloatArray:
        return np.where(self._folds != apart, self.weights, 0.0)

    def _run(self, run: int) -> "_Run":
        if run not in self._runs:
            train = np.flatnonzero(self._folds != run)
            problem = AdditiveFit(self.design, train, self._targets[train], self.weights[train], self._head)
            theta = problem.start()
            logits = self.design.logits(theta, train)
            self._runs.setdefault(run, _Run(train, np.flatnonzero(self._folds == run), problem, theta, logits))
        return self._runs[run]
