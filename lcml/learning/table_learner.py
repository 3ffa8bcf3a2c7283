"""Learn the model of a table: an additive part, then small trees, as many as examples that did not train them ask for.

    g(x) = bias + sum over columns of f_c(x_c) + sum over trees of the weight of the leaf that x is in

The penalty of the additive part and the number of trees are those of the least loss on held-out examples: pooled over
the folds of a cross-validation where examples are few, else over those set aside. Then all examples train the model
with what was chosen. The result is a logistic circuit: its first part the literals of the columns' variables, its
second the trees (`lcml.circuits.trees`).
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Backend
from lcml.circuits.parts import Part
from lcml.errors import SettingsError
from lcml.inputs.columns import ColumnsEncoder
from lcml.learning.additive import AdditiveDesign, AdditiveFit, Theta
from lcml.learning.assembly import assembled
from lcml.learning.boosting import Booster, GrownTree, cut_column, leaves
from lcml.learning.parameters import Parameters
from lcml.learning.settings import LearnSettings
from lcml.learning.solver import never
from lcml.learning.state import Best, EncodedSet, FitState, RoundReport
from lcml.model.head import HEADS, Link
from lcml.model.metrics import Quality, quality

STRENGTHS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
"""Penalties tried for the additive part, see `lcml.learning.additive`."""

MOST_FOR_FOLDS = 30_000
"""Examples, times weight sets, up to which folds choose; more tell enough when a part of them is set aside."""

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

_CHOOSING_SHARE = 0.5
"""With a time limit, of it."""


class TableLearner:
    """Learns from `examples`, whose values are `encoder.codes` of tables; the encoder is fitted to the first `n_train`.

    The others choose; where examples are few, and not `held_out`, all are divided into folds instead. At the end all
    train, but those held out. should_stop: asked often; once true, the learner ends with what it has. encoder: once
    `refine` is done, with the steps that the trees ask for.
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
    ) -> None:
        if settings.init == "generative":
            raise SettingsError("init: generative is for the structure splits; choose that, or leave init out")
        self.encoder, self.settings, self.backend, self.n_classes = encoder, settings, backend, n_classes
        self.link: Link = "sigmoid" if n_classes == 2 else "softmax"
        self.state: FitState | None = None
        self._head = HEADS[self.link]
        self._started, self._should_stop = monotonic(), should_stop
        self._labels, n = examples.labels, len(examples.labels)
        self._weights = np.ones(n) if examples.weights is None else np.asarray(examples.weights, np.float64)
        codes_of_sets = self._head.class_codes(self._head.n_sets(n_classes))
        self._targets = (self._labels[:, None] == codes_of_sets).astype(np.float64)
        self._final = np.arange(n_train if held_out else n)
        self.folds = [(np.arange(n_train), np.arange(n_train, n))]
        if not held_out and (n_train == n or chosen_by_folds(n, n_classes)):
            self.folds = _divided(self._labels, settings.folds, settings.seed)
        codes = examples.values[:]
        seen = self._final
        training_weights = np.where(np.isin(np.arange(n), seen), self._weights, 0.0)
        with backend.single_threaded_blas():
            self._design = AdditiveDesign(encoder.columns, codes, training_weights)
        by_column, of_seen = np.ascontiguousarray(codes.T), self._weights[seen]
        self._cuts = [cut_column(c, of[seen], of_seen) for c, of in zip(encoder.columns, by_column, strict=True)]
        self._bins = np.stack([cut.of(of) for cut, of in zip(self._cuts, by_column, strict=True)])
        self.strength, self._n_trees, self._depth = STRENGTHS[0], 0, DEPTHS[0]
        self._best_quality: Quality | None = None
        self._model: tuple[tuple[Part, ...], Parameters] | None = None

    def best(self) -> tuple[tuple[Part, ...], Parameters]:
        """The parts of the model, and the weights of their features."""
        assert self._model is not None
        return self._model

    def seconds(self) -> float:
        return monotonic() - self._started

    def grow(self) -> Iterator[RoundReport]:
        """Choose the penalty of the additive part and then, a block of trees after another, their number."""
        runs = [_Fold(self, train, choosing, self.stopping) for train, choosing in self.folds]
        best: Quality | None = None
        for step, strength in enumerate(STRENGTHS):
            list(self.backend.map(lambda run: run.fit(strength), runs))  # noqa: B023  # all are done with it here
            found = self.pooled([run.choosing_logits for run in runs])
            if best is None or self.is_better(found, best):
                best, self.strength = found, strength
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
        while race.stale < PATIENCE and race.n_trees < self.settings.trees and not self.stopping():
            yield from race.grow(min(race.n_trees + BLOCK, self.settings.trees))
        if additive is not None and race.best.log_loss <= (1 - WORTH) * additive.log_loss:
            self._best_quality, self._n_trees, self._depth = race.best, race.n_best, race.depth

    def refine(self) -> Iterator[RoundReport]:
        """Train all examples but those held out with what was chosen."""
        if self._best_quality is None:
            return
        run = _Fold(self, self._final, self._final[:0], self.is_late)
        run.fit(self.strength)
        run.keep()
        run.boost(self._depth)
        run.grow(self._n_trees)
        self.final = run
        self.encoder, parts, parameters = assembled(self.encoder, self._design, self._cuts, run.theta, run.trees)
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

    def refit(self, examples: EncodedSet) -> Iterator[RoundReport]:
        """Nothing: `refine` has trained all examples."""
        yield from ()

    def problem(self, rows: NDArray[np.intp]) -> AdditiveFit:
        return AdditiveFit(self._design, rows, self._targets[rows], self._weights[rows], self._head)

    def booster(self, rows: NDArray[np.intp], logits: FloatArray, depth: int) -> Booster:
        """Trees for some rows, from the additive part's logits on."""
        targets = self._targets[rows]

        def residuals(logits: FloatArray) -> tuple[FloatArray, FloatArray]:
            p = self._head.inverse_link(np, logits.T).T
            return p - targets, p * (1 - p)

        bins = np.ascontiguousarray(self._bins[:, rows])
        settings = self.settings
        return Booster(
            self._cuts,
            bins,
            self._weights[rows],
            residuals,
            logits,
            depth,
            settings.learning_rate,
            self.backend,
        )

    def after_trees(self, trees: Sequence[GrownTree], rows: NDArray[np.intp], logits: FloatArray) -> list[FloatArray]:
        """Logits of some rows after one tree, two trees, and so on."""
        bins = self._bins[:, rows]
        found = []
        for tree in trees:
            logits = logits + tree.values[leaves(tree, self._cuts, bins)]
            found.append(logits)
        return found

    def logits(self, theta: Theta, rows: NDArray[np.intp]) -> FloatArray:
        return self._design.logits(theta, rows)

    def quality(self, logits: FloatArray, rows: NDArray[np.intp]) -> Quality:
        return quality(logits, self._labels[rows], self.n_classes, self.link, self._weights[rows])

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

    def report(self, phase: str, round: int, run: "_Fold", valid: Quality, improved: bool) -> RoundReport:
        train = self.quality(run.logits, run.train)
        l2 = self.strength / float(self._weights.sum())
        n_leaves = sum(len(np.unique(tree.values, axis=0)) for tree in run.trees)
        n_parameters = self._targets.shape[1] * (self.encoder.n_outputs + n_leaves - len(run.trees) + 1)
        return RoundReport(
            phase=phase,
            round=round,
            n_elements=n_leaves,
            n_or_gates=0,
            n_parameters=n_parameters,
            l2=l2,
            train_loss=train.log_loss + l2 / 2 * float((run.theta.weights**2).sum()),
            train_log_loss=train.log_loss,
            train_accuracy=train.accuracy,
            valid=valid,
            n_iterations=0,
            converged=True,
            improved=improved,
            splits=(),
            seconds={},
        )


class _Fold:
    """A model under way: the rows that train it, and those that choose."""

    def __init__(
        self,
        learner: TableLearner,
        train: NDArray[np.intp],
        choosing: NDArray[np.intp],
        should_stop: Callable[[], bool],
    ) -> None:
        self._learner, self.train, self._choosing, self._should_stop = learner, train, choosing, should_stop
        self._problem = learner.problem(train)
        self._last = self.theta = self._problem.start()
        self.trees: list[GrownTree] = []

    def fit(self, strength: float) -> None:
        """The additive part with that penalty, from where the last one ended."""
        self._last = self._problem.minimise(strength, self._last, should_stop=self._should_stop)
        self.choosing_logits = self._learner.logits(self._last, self._choosing)

    def keep(self) -> None:
        """What was fitted last is the best so far."""
        self.theta = self._last
        self.logits = self._learner.logits(self.theta, self.train)

    def boosted(self, depth: int) -> "_Fold":
        """The same after the additive part, to grow trees of that depth."""
        other = copy.copy(self)
        other.boost(depth)
        return other

    def boost(self, depth: int) -> None:
        """Go over to trees."""
        self.logits = self.logits.copy()
        self.choosing_logits = self._learner.logits(self.theta, self._choosing)
        self._booster = self._learner.booster(self.train, self.logits, depth)
        self.trees = self._booster.trees

    def grow(self, n_trees: int) -> list[FloatArray]:
        """So many trees more, fewer where time is over; the logits of the rows that choose, after each."""
        new = [self._booster.add_tree() for _ in range(n_trees) if not self._should_stop()]
        self.logits = self._booster.logits
        if not (len(self._choosing) and new):
            return []
        curve = self._learner.after_trees(new, self._choosing, self.choosing_logits)
        self.choosing_logits = curve[-1]
        return curve


class _Race:
    """Trees of one depth in all folds, in step; best: the quality reached after n_best of them."""

    def __init__(self, learner: TableLearner, runs: Sequence[_Fold], depth: int, additive: Quality) -> None:
        self._learner, self.depth, self.best = learner, depth, additive
        self._runs = [run.boosted(depth) for run in runs]
        self.n_trees = self.n_best = 0

    @property
    def stale(self) -> int:
        """Trees since the best."""
        return self.n_trees - self.n_best

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
                    self.best, self.n_best, improved = found, self.n_trees, True
            if found is not None:
                yield self._learner.report("trees", self.n_trees, self._runs[0], found, improved)


def chosen_by_folds(n_examples: int, n_classes: int) -> bool:
    """Whether folds choose for so many examples, rather than a part set aside."""
    return n_examples * (1 if n_classes == 2 else n_classes) <= MOST_FOR_FOLDS


def _divided(labels: NDArray[np.int64], n_folds: int, seed: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows that train and rows that choose, fold by fold, with every class in proportion."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(labels), np.intp)
    first = 0
    for code in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == code))
        fold[rows] = (first + np.arange(len(rows))) % n_folds
        first += len(rows)
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
