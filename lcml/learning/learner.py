"""Learn logistic circuits: fit the weights, split where it helps most, fit again; at the end a path of penalties.

The learner reads no file, logs nothing and prints nothing: it yields a report per round, and its `state` is all that a
checkpoint must hold. The structure of a state is its split history: replaying it gives the same circuit and, to the
bit, the same features, so that a resumed learner goes on as if it had never stopped.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

import numpy as np

from lcml.backend import Backend
from lcml.backend.spread import Engine
from lcml.circuits.parts import GrownPart, Part, initial_part
from lcml.circuits.splits import Split
from lcml.circuits.views import View
from lcml.circuits.vtree import Vtree
from lcml.errors import DataError, SettingsError
from lcml.learning.generative import generative_start
from lcml.learning.minibatch import minimise_minibatch
from lcml.learning.parameters import Parameters, Parametrisation
from lcml.learning.scoring import race_splits
from lcml.learning.selection import ChosenSplit, apply_within, choose_splits, parts_after
from lcml.learning.sets import LearningSets
from lcml.learning.settings import LearnSettings
from lcml.learning.solver import Solution, SolverSettings, minimise, never
from lcml.learning.state import Best, Clock, EncodedSet, FitState, RoundReport
from lcml.model.head import HEADS, Link
from lcml.model.missing import is_whole

_FULL_SHARE = 0.99
"""Growth ends when so much of the limit on parameters is used: the last few splits are not worth another fit."""

_GROWTH_SHARE = 0.6
"""With a time limit, growth ends after this share of it: the rest is for the final path of penalties."""


class Learner:
    """Learns one circuit over every (view, vtree) of `places` from `train`, all together, choosing by `valid`.

    engine: holds the examples, where this process does not. should_stop: asked often; once true, the learner ends after
    the iteration at hand with what it has. state: where to go on from; warm: with whose structure and weights to begin,
    also for other examples.
    Raises SettingsError where the initial circuit exceeds the limits, DataError for an empty set.
    """

    def __init__(
        self,
        places: Sequence[tuple[View, Vtree]],
        train: EncodedSet,
        valid: EncodedSet,
        n_classes: int,
        settings: LearnSettings,
        backend: Backend,
        *,
        state: FitState | None = None,
        warm: FitState | None = None,
        should_stop: Callable[[], bool] = never,
        engine: Engine | None = None,
    ) -> None:
        for name, examples in (("training", train), ("validation", valid)):
            if not len(examples.labels):
                raise DataError(
                    f"the {name} set is empty; learning needs training and validation examples: check valid_fraction"
                )
        self.settings, self.backend, self.n_classes, self.state = settings, backend, n_classes, state
        self.threshold = settings.first_threshold(n_classes)
        self.initial = tuple(initial_part(view, vtree) for view, vtree in places)
        if settings.init == "generative" and not is_whole([part.view for part in self.initial]):
            raise SettingsError(
                "init: generative is for one circuit over whole examples; choose zero or the view whole"
            )
        self._n_sets = HEADS[settings.link].n_sets(n_classes)
        self._max_features = settings.most_features(self.initial, self._n_sets)
        self._interrupted, self._given = should_stop, train
        self._started = monotonic() - (0.0 if state is None else state.seconds)
        if engine is not None and settings.average:
            raise SettingsError("average: this is not done on a cluster; leave it out")
        self._sets = LearningSets(
            self.initial, train, valid, n_classes, settings, backend, most_features=self._max_features, engine=engine
        )
        clock = Clock()
        self._warm, begun = warm, state or warm
        self._sets.open(() if begun is None else begun.history)
        clock.lap("features")
        self._opening = clock.laps

    @property
    def link(self) -> Link:
        return self.settings.link

    @property
    def parts(self) -> tuple[Part, ...]:
        return self._sets.parts

    def best(self) -> tuple[tuple[Part, ...], Parameters]:
        """What did best on the validation set: the parts, and the weights of their features."""
        assert self.state is not None
        best, history = self.state.best, self.state.history
        is_open = best.round == self._sets.round
        parts = self.parts if is_open else parts_after(self.initial, history[: best.round], self.settings.depth)
        return parts, Parametrisation(parts, self.settings.literal_weights).to_features(best.parameters)

    def n_parameters(self, n_features: int) -> int:
        return self._n_sets * (n_features + 1)

    def seconds(self) -> float:
        """Seconds of learning so far, those before a resume included."""
        return monotonic() - self._started

    def n_parameters_of_best(self) -> int:
        """Of what did best on the validation set."""
        return self.n_parameters(sum(part.n_features for part in self.best()[0]))

    def is_stopping(self) -> bool:
        """Whether it was told to stop, or its time is up."""
        limit = self.settings.time_limit
        return self._interrupted() or (limit is not None and self.seconds() > limit)

    def bytes_not_kept(self) -> int:
        """What the features would take that are computed again at every reading, since memory does not hold them."""
        return self._sets.bytes_not_kept()

    def release(self) -> None:
        """Free the memory that features take: nothing more is to be learned."""
        self._sets.close()

    def grow(self) -> Iterator[RoundReport]:
        """Fit, then split and fit again until a limit, nothing worth a split, or no better validation."""
        if self.state is None:
            warm = self._warm
            history, start = ((), self._sets.train.zeros()) if warm is None else (warm.history, warm.parameters)
            if warm is None and self.settings.init == "generative":
                literals, part = self.settings.literal_weights, self.parts[0]
                start = generative_start(part, self._sets.examples, self._n_sets, self.link, literals, self.backend)
            yield from self._finish_round(history, start, self._opening, ())
        while self.state is not None and not self._is_done():
            clock = Clock()
            chosen, grown = self._choose(self.state, clock)
            if not chosen:
                return
            start = self._sets.train.parametrisation.inherit(grown, self.state.parameters)
            self._sets.follow([grown])
            clock.lap("features")
            splits = tuple(choice.split for choice in chosen)
            yield from self._finish_round((*self.state.history, splits), start, clock.laps, tuple(chosen))

    def refine(self) -> Iterator[RoundReport]:
        """Refit the best circuit to convergence with every penalty, the largest first; average what did best with fits
        by least squares, where that is asked for; the best gets its threshold."""
        if self.state is None:
            return
        state, best_round, clock = self.state, self.state.best.round, Clock()
        if best_round < state.round:
            self._sets.open(state.history[:best_round], to_grow=False)
        if not self.is_stopping():
            self._sets.see_all()
        clock.lap("features")
        for l2, solution in self._path(state.best.parameters, best_round):
            clock.lap("fit")
            report, clock = self._report("refine", best_round, l2, solution, clock, ()), Clock()
            if report.improved:
                self._keep(Best(best_round, l2, solution.parameters, report.train_accuracy, report.valid))
            yield report
        if self.settings.average and not self.is_stopping():
            yield from self._average(self.state.best)
        if isinstance(metric := self.settings.threshold, str):
            best = self.state.best
            self.threshold = self._sets.valid.threshold(best.parameters, metric)
            both = self._sets.train, self._sets.valid
            train, valid = (objective.quality(best.parameters, self.threshold) for objective in both)
            best = dataclasses.replace(best, train_accuracy=train.accuracy, valid=valid)
            self.state = dataclasses.replace(self.state, best=best)

    def _average(self, fitted: Best) -> Iterator[RoundReport]:
        """The mean of the best weights and those of least squares, of the images without copies, of every penalty."""
        clock = Clock()
        self._open_images(self._given)
        clock.lap("features")
        for l2, solution in self._path(self._sets.train.zeros(), fitted.round, squares=True):
            clock.lap("fit")
            mean, scale = self._mean(fitted.parameters, solution.parameters)
            solution = dataclasses.replace(solution, parameters=mean)
            report, clock = self._report("average", fitted.round, l2, solution, clock, ()), Clock()
            if report.improved:
                self._keep(Best(fitted.round, fitted.l2, mean, report.train_accuracy, report.valid, l2, scale))
            yield report

    def _mean(self, fitted: Parameters, squares: Parameters) -> tuple[Parameters, float]:
        """The mean of both, and what the second is times in it: the number, up to four times that which gives both
        logits of one size, under which the validation examples have the least log loss."""
        from scipy.optimize import minimize_scalar

        both = [self._sets.valid.logits(parameters) for parameters in (fitted, squares)]
        sizes = [float(np.sqrt(np.mean(logits**2))) for logits in both]
        most = 4 * sizes[0] / max(sizes[1], np.finfo(float).tiny)

        def lost(scale: float) -> float:
            return self._sets.valid.quality_of((both[0] + scale * both[1]) / 2).log_loss

        scale = float(minimize_scalar(lost, bounds=(0, most), method="bounded").x)
        return fitted.mean(squares, scale), scale

    def _path(self, parameters: Parameters, round: int, *, squares: bool = False) -> Iterator[tuple[float, Solution]]:
        """Fits with every penalty, the largest first, each from where the one before ended."""
        for l2 in sorted(set(self.settings.l2_path), reverse=True):
            if self.is_stopping():
                return
            solution = self._fit(parameters, l2, self.settings.final_iterations, round, squares=squares)
            parameters = solution.parameters
            yield l2, solution

    def _keep(self, best: Best) -> None:
        assert self.state is not None
        self.state = dataclasses.replace(self.state, best=best, seconds=self.seconds())

    def _open_images(self, examples: EncodedSet | None) -> None:
        """Both sets under the best circuit, the images among `examples`, if there are copies, to train on without."""
        assert self.state is not None
        if examples is None or examples.n_images is None:
            return
        self._sets.open(self.state.history[: self.state.best.round], examples.images(), to_grow=False)

    def refit(self, examples: EncodedSet | None = None) -> Iterator[RoundReport]:
        """Fit the best circuit once more, with its penalty, to `examples`: those of training and validation together,
        which are prepared anew (distorted, spread over a cluster), or, by default, as they are.

        What validation measured before stands, since these weights have seen its examples.
        """
        if self.state is None or self.is_stopping():
            return
        clock, best = Clock(), self.state.best
        if examples is None:
            self._sets.join()
        else:
            self._sets.open(self.state.history[: best.round], examples, to_grow=False)
        clock.lap("features")
        solution = self._fit(best.parameters, best.l2, self.settings.final_iterations, best.round)
        if best.l2_squares is not None:
            if self.is_stopping():
                return
            self._open_images(examples)
            start, n = self._sets.train.zeros(), self.settings.final_iterations
            squares = self._fit(start, best.l2_squares, n, best.round, squares=True)
            if self.is_stopping():
                return
            mean = solution.parameters.mean(squares.parameters, best.scale)
            solution = dataclasses.replace(solution, parameters=mean)
        clock.lap("fit")
        report = self._report("refit", best.round, best.l2, solution, clock, ())
        self._keep(dataclasses.replace(best, parameters=solution.parameters, train_accuracy=report.train_accuracy))
        yield dataclasses.replace(report, valid=best.valid, improved=True)

    def _finish_round(
        self,
        history: tuple[tuple[Split, ...], ...],
        start: Parameters,
        seconds: dict[str, float],
        chosen: tuple[ChosenSplit, ...],
    ) -> Iterator[RoundReport]:
        """Fit from `start`, measure, and move the state on, unless the fit was interrupted."""
        clock = Clock(seconds)
        solution = self._fit(start, self.settings.l2, self.settings.round_iterations, len(history))
        clock.lap("fit")
        if self._interrupted() and self.state is not None:
            return
        report = self._report("grow", len(history), self.settings.l2, solution, clock, chosen)
        best, stale = Best(len(history), report.l2, solution.parameters, report.train_accuracy, report.valid), 0
        if self.state is not None and not report.improved:
            best, stale = self.state.best, self.state.stale_rounds + 1
        self.state = FitState(history, solution.parameters, best, stale, self.seconds())
        yield report

    def _choose(self, state: FitState, clock: Clock) -> tuple[list[ChosenSplit], list[GrownPart]]:
        """The splits of the next round, scored on a sample of the training examples, and the parts they make."""
        settings, features = self.settings, self._sets.train.features
        n_cells = max(part.view.n_cells for part in self.parts)
        drawn = np.random.default_rng([settings.seed, state.round]).permutation(features.n_chunks).tolist()
        chunks = features.first_of(drawn, settings.score_examples / n_cells)
        support = settings.minimum_support
        candidates = race_splits(
            self._sets.train, state.parameters, settings.criterion, minimum_support=support, chunks=chunks
        )
        clock.lap("score")
        growing = [part for part in self.parts if part.view.grows]
        present = sum(part.view.n_cells * part.circuit.n_elements for part in growing)
        chosen = choose_splits(self.parts, candidates, max(1, round(settings.growth * present)), settings.depth)
        limits = self._max_features, settings.max_elements
        chosen, grown = apply_within(self.parts, chosen, *limits, settings.depth)
        clock.lap("split")
        return chosen, grown

    def _fit(self, start: Parameters, l2: float, max_iterations: int, round: int, *, squares: bool = False) -> Solution:
        settings, objective = SolverSettings(max_iterations, self.settings.tolerance), self._sets.train.with_l2(l2)
        objective = objective.least_squares() if squares else objective
        if self.settings.solver == "minibatch":
            return minimise_minibatch(objective, start, settings, self.settings.seed + round, self.is_stopping)
        return minimise(objective, start, settings, self.is_stopping)

    def _report(
        self, phase: str, round: int, l2: float, solution: Solution, clock: Clock, chosen: tuple[ChosenSplit, ...]
    ) -> RoundReport:
        train_accuracy, train_log_loss = self._sets.train.reached(solution.parameters, self.threshold)
        valid = self._sets.valid.quality(solution.parameters, self.threshold)
        clock.lap("evaluate")
        metric = "accuracy" if self.settings.metric == "auto" else self.settings.metric
        return RoundReport(
            phase=phase,
            round=round,
            n_elements=sum(part.circuit.n_elements for part in self.parts),
            n_or_gates=sum(part.circuit.n_or_gates for part in self.parts),
            n_parameters=self.n_parameters(self._sets.train.features.n_features),
            l2=l2,
            train_loss=solution.loss,
            train_log_loss=train_log_loss,
            train_accuracy=train_accuracy,
            valid=valid,
            n_iterations=solution.n_iterations,
            converged=solution.converged,
            improved=self.state is None or valid.rank(metric) > self.state.best.valid.rank(metric),
            splits=chosen,
            seconds=dict(clock.laps),
        )

    def _is_done(self) -> bool:
        assert self.state is not None
        settings, n_features = self.settings, self._sets.train.features.n_features
        full = self._max_features is not None and n_features >= _FULL_SHARE * self._max_features
        over_time = settings.time_limit is not None and self.seconds() > _GROWTH_SHARE * settings.time_limit
        ended = self.state.round >= settings.rounds or self.state.stale_rounds >= settings.patience
        return full or over_time or ended or self.is_stopping()
