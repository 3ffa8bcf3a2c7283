"""Learn the model of a table: an additive part, then small trees, as many as examples that did not train them ask for.

    g(x) = bias + sum over columns of f_c(x_c) + sum over trees of the weight of the leaf that x is in

The penalty of the additive part and the number of trees are those of the least loss on held-out examples: pooled over
the folds of a cross-validation where examples are few, else over those set aside. Then all examples train the model
with what was chosen. The result is a logistic circuit: its first part the literals of the columns' variables, its
second the trees (`lcml.circuits.trees`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Backend
from lcml.backend.spread import HERE, Engine, Spread
from lcml.circuits.parts import Part
from lcml.errors import SettingsError
from lcml.inputs.columns import ColumnsEncoder
from lcml.learning.additive import AdditiveDesign, is_in_span
from lcml.learning.assembly import assembled
from lcml.learning.boosting import ColumnBins, cut_column
from lcml.learning.folds import chosen_by_folds, divided
from lcml.learning.parameters import Parameters
from lcml.learning.settings import LearnSettings
from lcml.learning.solver import never
from lcml.learning.state import Best, EncodedSet, FitState, RoundReport
from lcml.learning.table_rows import TableRows
from lcml.learning.table_run import Run
from lcml.model.head import HEADS, Link
from lcml.model.metrics import Quality, quality
from lcml.model.threshold import best_threshold

STRENGTHS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
"""Penalties tried for the additive part, see `lcml.learning.additive`."""

DEPTHS = (3, 6)
MANY = 1000
"""Examples from which on the deeper trees are tried."""

RACE = 30
"""Trees of every depth, after which the best goes on alone."""

WORTH = 0.002
"""Trees that lower the held-out loss by a smaller share than this are left out."""

WORSE = 1.01
"""The path of penalties ends where the loss is so many times the least."""

PATIENCE = 30
BLOCK = 10
"""Trees that are grown between two looks at the held-out loss."""

_CHOOSING_SHARE = 0.5  # with a time limit, of it

MOST_CUT_BY = 1_000_000
"""Rows that tell where trees may cut a column, a sample of more."""

_NO_FOLD, _NO_RUN = -1, -2  # of rows that always train; of a run that all rows train


class TableLearner:
    """Learns from `examples`, whose values are `encoder.codes` of tables; the encoder is fitted to the first `n_train`.

    The others choose; where examples are few, and not `held_out`, all are divided into folds instead. At the end all
    train, but those held out. engine: holds the rows, where this process does not. should_stop: asked often; once true,
    the learner ends with what it has. encoder: once `refine` is done, with the steps that the trees ask for.
    """

    def __init__(
        self,
        encoder: ColumnsEncoder,
        examples: EncodedSet,
        n_train: int,
        n_classes: int,
        settings: LearnSettings,
        backend: Backend,
        *,
        held_out: bool = False,
        should_stop: Callable[[], bool] = never,
        engine: Engine | None = None,
    ) -> None:
        if settings.init == "generative":
            raise SettingsError("init: generative is for the structure splits; choose that, or leave init out")
        if settings.average:
            raise SettingsError("average: for circuits that grow by splits; leave it out, or choose structure splits")
        self.encoder, self.settings, self.backend, self.n_classes = encoder, settings, backend, n_classes
        self.threshold = settings.first_threshold(n_classes)
        self.link: Link = "sigmoid" if n_classes == 2 else "softmax"
        self.state: FitState | None = None
        self._head = HEADS[self.link]
        self._started, self._should_stop = monotonic(), should_stop
        self._labels, n = examples.labels, len(examples.labels)
        self._weights = np.ones(n) if examples.weights is None else np.asarray(examples.weights, np.float64)
        self._final = np.arange(n_train if held_out else n)
        self.folds = [(np.arange(n_train), np.arange(n_train, n))]
        if not held_out and (n_train == n or chosen_by_folds(n, n_classes)):
            self.folds = divided(self._labels, settings.folds, settings.seed)
        fold_of = np.full(n, _NO_FOLD)
        for number, (_, choosing) in enumerate(self.folds):
            fold_of[choosing] = number
        self._final_run = 0 if held_out else _NO_RUN
        is_here = engine is None or is_in_span(encoder.columns, n)
        self.rows: Spread[TableRows] = (HERE if engine is None or is_here else engine).spread(
            TableRows,
            examples.values,
            examples.labels,
            self._weights,
            fold_of,
            columns=encoder.columns,
            link=self.link,
            n_classes=n_classes,
            backend=backend,
        )
        self.cuts = [self._cut(j) for j in range(len(encoder.columns))]
        mass = None if is_here else np.sum(self.rows.ask(TableRows.masses, self._final_run), axis=0)
        self.rows.tell(TableRows.prepare, self._final_run, mass, self.cuts)
        if is_here:
            (self._design,) = self.rows.ask(lambda rows: rows.design)
        else:
            nothing = np.empty((0, len(encoder.columns)))
            self._design = AdditiveDesign(encoder.columns, nothing, np.empty(0), mass)
        self.strength, self._n_trees, self._depth = STRENGTHS[0], 0, DEPTHS[0]
        self._best_quality: Quality | None = None
        self._best_logits: Sequence[FloatArray] = ()
        self._model: tuple[tuple[Part, ...], Parameters] | None = None

    def best(self) -> tuple[tuple[Part, ...], Parameters]:
        """The parts of the model, and the weights of their features."""
        assert self._model is not None
        return self._model

    def seconds(self) -> float:
        return monotonic() - self._started

    def grow(self) -> Iterator[RoundReport]:
        """Choose the penalty of the additive part and then, a block of trees after another, their number."""
        runs = [self._run(number, self.stopping) for number in range(len(self.folds))]
        best: Quality | None = None
        for step, strength in enumerate(STRENGTHS):
            list(self.backend.map(lambda run: run.fit(strength), runs))  # noqa: B023  # all are done with it here
            of_folds = [run.choosing_logits for run in runs]
            found = self.pooled(of_folds)
            if best is None or self.is_better(found, best):
                best, self.strength, self._best_logits = found, strength, of_folds
                for run in runs:
                    run.keep()
            elif found.log_loss > WORSE * best.log_loss:
                break
            yield self.report("additive", step, runs[0], found, best is found)
            if self.stopping():
                break
        additive = self._best_quality = best
        if best is None or not self.settings.trees:
            return
        depths = DEPTHS if len(self._labels) >= MANY else DEPTHS[:1]
        if self.settings.tree_depth is not None:
            depths = (self.settings.tree_depth,)
        races = [_Race(self, runs, depth, best) for depth in depths]
        for race in races:
            yield from race.grow(min(RACE, self.settings.trees))
        race = races[0]
        for other in races[1:]:
            race = other if self.is_better(other.best, race.best) else race
        while race.n_trees - race.n_best < PATIENCE and race.n_trees < self.settings.trees and not self.stopping():
            yield from race.grow(min(race.n_trees + BLOCK, self.settings.trees))
        if additive is not None and race.best.log_loss <= (1 - WORTH) * additive.log_loss:
            self._best_quality, self._n_trees, self._depth = race.best, race.n_best, race.depth
            self._best_logits = race.best_logits

    def refine(self) -> Iterator[RoundReport]:
        """Train all examples but those held out with what was chosen."""
        if self._best_quality is None:
            return
        self._best_quality = self._decided()
        run = self._run(self._final_run, self.is_late, chooses=False)
        run.fit(self.strength)
        run.keep()
        run.boost(self._depth)
        run.grow(self._n_trees)
        self.final = run
        self.encoder, parts, parameters = assembled(self.encoder, self._design, self.cuts, run.theta, run.trees)
        self._model = parts, parameters
        report = self.report("refit", self._n_trees, run, self._best_quality, True)
        self.state = FitState(
            (),
            parameters,
            Best(self._n_trees, report.l2, parameters, report.train_accuracy, self._best_quality),
            0,
            self.seconds(),
        )
        yield replace(
            report,
            n_elements=sum(part.circuit.n_elements for part in parts),
            n_or_gates=sum(part.circuit.n_or_gates for part in parts),
            n_parameters=parameters.weights.size + parameters.bias.size,
        )

    def _run(self, number: int, should_stop: Callable[[], bool], *, chooses: bool = True) -> Run:
        rate = self.settings.learning_rate
        return Run(self.rows, number, self.cuts, rate, self.backend, should_stop, chooses=chooses)

    def _cut(self, j: int) -> ColumnBins:
        """Where trees may cut a column: by the rows that train at the end, a sample of very many."""
        seen = self._final
        if len(seen) > MOST_CUT_BY:
            seen = np.sort(np.random.default_rng(self.settings.seed).choice(seen, MOST_CUT_BY, replace=False))
        parts = np.split(seen, np.searchsorted(seen, self.rows.starts[1:-1]))
        asked = [part - start for part, start in zip(parts, self.rows.starts, strict=False)]
        codes = np.concatenate(self.rows.ask_each(TableRows.column, [(j, part) for part in asked]))
        return cut_column(self.encoder.columns[j], codes, self._weights[seen])

    def _decided(self) -> Quality:
        """What the examples that chose reach, once they have told the threshold too."""
        logits, rows = np.concatenate(self._best_logits), np.concatenate([choosing for _, choosing in self.folds])
        if isinstance(metric := self.settings.threshold, str):
            probabilities = self._head.probabilities(logits)[:, 1]
            self.threshold = best_threshold(probabilities, self._labels[rows], metric, self._weights[rows])
        return self.quality(logits, rows, calibration=True)

    def quality(self, logits: FloatArray, rows: NDArray[np.intp], *, calibration: bool = False) -> Quality:
        labels, weights = self._labels[rows], self._weights[rows]
        return quality(logits, labels, self.n_classes, self.link, weights, self.threshold, calibration=calibration)

    def pooled(self, logits: Sequence[FloatArray]) -> Quality:
        """Of all examples that chose, each by the fold that it did not train."""
        return self.quality(np.concatenate(logits), np.concatenate([choosing for _, choosing in self.folds]))

    def is_better(self, found: Quality, best: Quality) -> bool:
        metric = "log-loss" if self.settings.metric == "auto" else self.settings.metric
        return found.rank(metric) > best.rank(metric)

    def stopping(self) -> bool:
        """Whether choosing ends: half of the time is for training all examples."""
        return self._should_stop() or self.is_late(_CHOOSING_SHARE)

    def is_late(self, share: float = 1) -> bool:
        """Whether more than this share of the time limit is over."""
        limit = self.settings.time_limit
        return limit is not None and self.seconds() > share * limit

    def report(self, phase: str, round: int, run: Run, valid: Quality, improved: bool) -> RoundReport:
        train_accuracy, train_log_loss = run.reached(self.threshold)
        l2 = self.strength / float(self._weights.sum())
        n_leaves = sum(tree.n_leaves for tree in run.trees)
        n_parameters = self._head.n_sets(self.n_classes) * (self.encoder.n_outputs + n_leaves - len(run.trees) + 1)
        return RoundReport(
            phase=phase,
            round=round,
            n_elements=n_leaves,
            n_or_gates=0,
            n_parameters=n_parameters,
            l2=l2,
            train_loss=train_log_loss + l2 / 2 * float((run.theta.weights**2).sum()),
            train_log_loss=train_log_loss,
            train_accuracy=train_accuracy,
            valid=valid,
            n_iterations=0,
            converged=True,
            improved=improved,
            splits=(),
            seconds={},
        )


class _Race:
    """Trees of one depth in all folds, in step; best: the quality reached after n_best of them."""

    def __init__(self, learner: TableLearner, runs: Sequence[Run], depth: int, additive: Quality) -> None:
        self._learner, self.depth, self.best = learner, depth, additive
        self._runs = [run.boosted(depth) for run in runs]
        self.best_logits: Sequence[FloatArray] = ()
        self.n_trees = self.n_best = 0

    def grow(self, n_trees: int) -> Iterator[RoundReport]:
        """Up to so many trees in all, block by block."""
        while self.n_trees < n_trees and not self._learner.stopping():
            block = min(BLOCK, n_trees - self.n_trees)
            curves = list(self._learner.backend.map(lambda run: run.grow(block), self._runs))  # noqa: B023  # done here
            improved, found = False, None
            for logits in zip(*curves, strict=False):  # a fold that was stopped has fewer
                self.n_trees += 1
                found = self._learner.pooled(logits)
                if self._learner.is_better(found, self.best):
                    self.best, self.n_best, improved, self.best_logits = found, self.n_trees, True, logits
            if found is not None:
                yield self._learner.report("trees", self.n_trees, self._runs[0], found, improved)
