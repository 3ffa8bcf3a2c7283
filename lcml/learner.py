"""Learn a logistic circuit: fit the weights, split where it helps most, fit again; at the end a path of penalties.

The learner reads no file, logs nothing and prints nothing: it yields a report per round, and its `state` is all that a
checkpoint must hold. The structure of a state is its split history: replaying it gives the same circuit and, to the
bit, the same features, so that a resumed learner goes on as if it had never stopped.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Backend
from lcml.circuit import Circuit, initial_circuit
from lcml.errors import DataError, SettingsError
from lcml.features import FeatureStore
from lcml.metrics import Quality, quality
from lcml.minibatch import minimise_minibatch
from lcml.model import n_weight_sets
from lcml.objective import Objective, Parameters
from lcml.rows import Matrix
from lcml.scoring import score_splits
from lcml.selection import ChosenSplit, apply_within, choose_splits
from lcml.settings import LearnSettings
from lcml.solver import Solution, SolverSettings, minimise, never
from lcml.splits import Split, SplitResult, apply_splits
from lcml.vtree import Vtree


@dataclass(frozen=True, eq=False)
class EncodedSet:
    """Examples ready for a circuit: values (n_examples, n_variables) in [0, 1], an array or what gives one when sliced;
    labels (n_examples,) class codes."""

    values: Matrix
    labels: NDArray[np.int64]
    weights: NDArray[np.floating] | None = None


@dataclass(frozen=True, eq=False)
class RoundReport:
    """What a round, or a step of the final path of penalties, did and reached.

    seconds: by phase (score, split, features, fit, evaluate); train_loss: with the penalty; l2: the penalty used;
    improved: whether this is the best so far on the validation set.
    """

    phase: str
    round: int
    n_elements: int
    n_or_gates: int
    n_parameters: int
    l2: float
    train_loss: float
    train_accuracy: float
    valid: Quality
    n_iterations: int
    converged: bool
    improved: bool
    splits: tuple[ChosenSplit, ...]
    seconds: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Best:
    """The best weights so far: after how many rounds of splits, with which penalty, and what they reached."""

    round: int
    l2: float
    parameters: Parameters
    train_accuracy: float
    valid: Quality


@dataclass(frozen=True, eq=False)
class FitState:
    """All that learning needs to go on: the splits of every round so far, the weights, and the best weights."""

    history: tuple[tuple[Split, ...], ...]
    parameters: Parameters
    best: Best
    stale_rounds: int
    seconds: float

    @property
    def round(self) -> int:
        return len(self.history)


class Learner:
    """Learns one circuit over `vtree` from `train`, choosing by `valid`.

    should_stop: asked often; once true, the learner ends after the iteration at hand with what it has. state: where to
    go on from. Raises SettingsError where the initial circuit exceeds the limits, DataError for an empty set.
    """

    def __init__(
        self,
        vtree: Vtree,
        train: EncodedSet,
        valid: EncodedSet,
        n_classes: int,
        settings: LearnSettings,
        backend: Backend,
        *,
        state: FitState | None = None,
        should_stop: Callable[[], bool] = never,
    ) -> None:
        for name, examples in (("training", train), ("validation", valid)):
            if not len(examples.labels):
                raise DataError(
                    f"the {name} set is empty; learning needs training and validation examples: check valid_fraction"
                )
        self.settings, self.backend, self.n_classes = settings, backend, n_classes
        self.state = state
        self.initial = initial_circuit(vtree)
        self._train_set, self._valid_set = train, valid
        self._n_sets = n_weight_sets(n_classes, settings.link)
        self._max_elements = self._element_limit()
        self._interrupted = should_stop
        self._started = monotonic() - (0.0 if state is None else state.seconds)
        self._train, self._valid = self._store(train), self._store(valid)
        for splits in () if state is None else state.history:
            result = apply_splits(self._train.circuit, splits, settings.depth)
            self._train.grow(result)
            self._valid.grow(result)

    @property
    def circuit(self) -> Circuit:
        """The circuit grown so far."""
        return self._train.circuit

    def best(self) -> tuple[Circuit, Best]:
        """The circuit and weights that did best on the validation set."""
        assert self.state is not None
        return circuit_after(self.initial, self.state, self.state.best.round, self.settings.depth), self.state.best

    def n_parameters(self, circuit: Circuit) -> int:
        """Weights of elements and literals, and biases, of a model on `circuit`."""
        literals = circuit.n_literals if self.settings.literal_weights else 0
        return self._n_sets * (circuit.n_elements + literals + 1)

    def seconds(self) -> float:
        """Seconds of learning so far, those before a resume included."""
        return monotonic() - self._started

    def grow(self) -> Iterator[RoundReport]:
        """Fit, then split and fit again until a limit is met, nothing is worth a split, or validation stops
        improving."""
        if self.state is None:
            yield from self._finish_round((), self._objective().zeros(), {}, ())
        while self.state is not None and not self._is_done():
            clock = _Clock()
            chosen, result = self._choose(self.state, clock)
            if not chosen:
                return
            self._train.grow(result)
            self._valid.grow(result)
            clock.lap("features")
            start = inherit(self.state.parameters, result, self.settings.literal_weights)
            splits = tuple(choice.split for choice in chosen)
            yield from self._finish_round((*self.state.history, splits), start, clock.laps, tuple(chosen))

    def refine(self) -> Iterator[RoundReport]:
        """Refit the best circuit to convergence with every penalty of the path, the largest first; the best stands."""
        if self.state is None:
            return
        state, best_round = self.state, self.state.best.round
        if best_round < state.round:
            self._train, self._valid = self._store(self._train_set), self._store(self._valid_set)
            for splits in state.history[:best_round]:
                result = apply_splits(self._train.circuit, splits, self.settings.depth)
                self._train.grow(result)
                self._valid.grow(result)
        parameters = state.best.parameters
        for l2 in sorted(set(self.settings.l2_path), reverse=True):
            if self._stopping():
                return
            clock = _Clock()
            solution = self._fit(parameters, l2, self.settings.final_iterations, best_round)
            clock.lap("fit")
            parameters = solution.parameters
            report = self._report("refine", best_round, l2, solution, clock, ())
            assert self.state is not None
            if report.improved:
                best = Best(best_round, l2, parameters, report.train_accuracy, report.valid)
                self.state = dataclasses.replace(self.state, best=best, seconds=self.seconds())
            yield report

    def _finish_round(
        self,
        history: tuple[tuple[Split, ...], ...],
        start: Parameters,
        seconds: dict[str, float],
        chosen: tuple[ChosenSplit, ...],
    ) -> Iterator[RoundReport]:
        """Fit from `start`, measure, and move the state on, unless the fit was interrupted."""
        clock = _Clock(seconds)
        solution = self._fit(start, self.settings.l2, self.settings.round_iterations, len(history))
        clock.lap("fit")
        if self._interrupted() and self.state is not None:
            return
        report = self._report("grow", len(history), self.settings.l2, solution, clock, chosen)
        if report.improved or self.state is None:
            best = Best(len(history), report.l2, solution.parameters, report.train_accuracy, report.valid)
            stale = 0
        else:
            best, stale = self.state.best, self.state.stale_rounds + 1
        self.state = FitState(history, solution.parameters, best, stale, self.seconds())
        yield report

    def _choose(self, state: FitState, clock: "_Clock") -> tuple[list[ChosenSplit], SplitResult]:
        settings, circuit = self.settings, self.circuit
        generator = np.random.default_rng([settings.seed, state.round])
        n_read = min(self._train.n_chunks, math.ceil(settings.score_examples / self.backend.chunk_examples))
        chunks = sorted(generator.permutation(self._train.n_chunks)[:n_read].tolist())
        candidates = score_splits(
            self._objective(),
            state.parameters,
            settings.criterion,
            minimum_support=settings.minimum_support,
            chunks=chunks,
        )
        clock.lap("score")
        room = max(1, round(settings.growth * circuit.n_elements))
        if self._max_elements is not None:
            room = min(room, self._max_elements - circuit.n_elements)
        chosen = choose_splits(circuit, candidates, room, settings.depth)
        chosen, result = apply_within(circuit, chosen, self._max_elements, settings.depth)
        clock.lap("split")
        return chosen, result

    def _fit(self, start: Parameters, l2: float, max_iterations: int, round: int) -> Solution:
        settings = SolverSettings(max_iterations, self.settings.tolerance)
        objective = self._objective(l2)
        if self.settings.solver == "minibatch":
            return minimise_minibatch(objective, start, settings, self.settings.seed + round, self._stopping)
        return minimise(objective, start, settings, self._stopping)

    def _report(
        self, phase: str, round: int, l2: float, solution: Solution, clock: "_Clock", chosen: tuple[ChosenSplit, ...]
    ) -> RoundReport:
        link = self.settings.link
        objective = self._objective(l2)
        train = quality(objective.logits(solution.parameters), self._train_set.labels, self.n_classes, link)
        valid_logits = self._objective(l2, self._valid, self._valid_set).logits(solution.parameters)
        valid = quality(valid_logits, self._valid_set.labels, self.n_classes, link)
        clock.lap("evaluate")
        improved = self.state is None or valid.rank(self.settings.metric) > self.state.best.valid.rank(
            self.settings.metric
        )
        return RoundReport(
            phase=phase,
            round=round,
            n_elements=self.circuit.n_elements,
            n_or_gates=self.circuit.n_or_gates,
            n_parameters=self.n_parameters(self.circuit),
            l2=l2,
            train_loss=solution.loss,
            train_accuracy=train.accuracy,
            valid=valid,
            n_iterations=solution.n_iterations,
            converged=solution.converged,
            improved=improved,
            splits=chosen,
            seconds=dict(clock.laps),
        )

    def _objective(
        self, l2: float | None = None, store: FeatureStore | None = None, examples: EncodedSet | None = None
    ) -> Objective:
        examples = examples or self._train_set
        return Objective(
            store or self._train,
            examples.labels,
            self.n_classes,
            link=self.settings.link,
            literal_weights=self.settings.literal_weights,
            l2=self.settings.l2 if l2 is None else l2,
            example_weights=examples.weights,
        )

    def _store(self, examples: EncodedSet) -> FeatureStore:
        budget = self.settings.memory_budget
        return FeatureStore(
            self.initial,
            examples.values,
            self.backend,
            precision=self.settings.precision,
            budget=None if budget is None else budget * 2**20,
        )

    def _element_limit(self) -> int | None:
        limits = [] if self.settings.max_elements is None else [self.settings.max_elements]
        if self.settings.max_parameters is not None:
            literals = self.initial.n_literals if self.settings.literal_weights else 0
            limits.append(self.settings.max_parameters // self._n_sets - literals - 1)
        limit = min(limits, default=None)
        if limit is not None and limit < self.initial.n_elements:
            raise SettingsError(
                f"the initial circuit over {self.initial.n_variables} variables has {self.initial.n_elements} elements "
                f"and {self.n_parameters(self.initial)} parameters, more than max_elements or max_parameters allow; "
                "raise them"
            )
        return limit

    def _is_done(self) -> bool:
        assert self.state is not None
        settings = self.settings
        full = self._max_elements is not None and self.circuit.n_elements >= _FULL_SHARE * self._max_elements
        over_time = settings.time_limit is not None and self.seconds() > _GROWTH_SHARE * settings.time_limit
        ended = self.state.round >= settings.rounds or self.state.stale_rounds >= settings.patience
        return full or over_time or ended or self._stopping()

    def _stopping(self) -> bool:
        limit = self.settings.time_limit
        return self._interrupted() or (limit is not None and self.seconds() > limit)


_FULL_SHARE = 0.99
"""Growth ends when so much of the limit on elements is used: the last few splits are not worth another fit."""

_GROWTH_SHARE = 0.6
"""With a time limit, growth ends after this share of it: the rest is for the final path of penalties."""


def circuit_after(initial: Circuit, state: FitState, n_rounds: int, depth: int) -> Circuit:
    """The circuit that the first `n_rounds` rounds of splits of `state` make of `initial`."""
    for splits in state.history[:n_rounds]:
        initial = apply_splits(initial, splits, depth).circuit
    return initial


def inherit(parameters: Parameters, result: SplitResult, literal_weights: bool) -> Parameters:
    """The weights on a grown circuit that leave the function as it was."""
    first = result.circuit.n_literals if literal_weights else 0
    elements = parameters.weights[:, first:][:, result.origin]
    return Parameters(np.concatenate([parameters.weights[:, :first], elements], axis=1), parameters.bias)


@dataclass
class _Clock:
    """Seconds by phase."""

    laps: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=monotonic)

    def lap(self, phase: str) -> None:
        now = monotonic()
        self.laps[phase] = self.laps.get(phase, 0.0) + now - self._last
        self._last = now
