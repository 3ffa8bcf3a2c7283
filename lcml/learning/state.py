"""What goes into learning, what it reports, and the state that a checkpoint holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from lcml.circuits.splits import Split
from lcml.inputs.rows import Joined, Matrix, Ordered
from lcml.learning.parameters import Parameters
from lcml.learning.selection import ChosenSplit
from lcml.model.metrics import Quality


@dataclass(frozen=True, eq=False)
class EncodedSet:
    """Examples ready for a circuit: values (n_examples, n_variables) in [0, 1], an array or what gives one when sliced;
    for trees codes of a table's columns; labels (n_examples,) class codes; weights (n_examples,) of 0 or more, None for
    ones; n_images: of images and their distorted copies, behind them, how many images they are."""

    values: Matrix
    labels: NDArray[np.int64]
    weights: NDArray[np.floating] | None = None
    n_images: int | None = None

    def images(self) -> "EncodedSet":
        """The examples without distorted copies."""
        return self.ordered(np.arange(len(self.labels) if self.n_images is None else self.n_images))

    def ordered(self, index: NDArray[np.int64]) -> "EncodedSet":
        """The examples in another order, without a copy of their values."""
        weights = None if self.weights is None else self.weights[index]
        return EncodedSet(Ordered(self.values, index), self.labels[index], weights)

    def joined(self, other: "EncodedSet") -> "EncodedSet":
        """These examples and then the others, without a copy of their values."""
        sets, weights = (self, other), None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate([np.ones(len(s.labels)) if s.weights is None else s.weights for s in sets])
        return EncodedSet(Joined(self.values, other.values), np.concatenate([s.labels for s in sets]), weights)


@dataclass(frozen=True, eq=False)
class RoundReport:
    """What a round, or a step of the final path of penalties, did and reached.

    seconds: by phase (score, split, features, fit, evaluate); train_loss: what was minimised, with the penalty;
    train_log_loss: without it, as that of `valid`; l2: the penalty used; improved: whether this is the best so far on
    the validation set.
    """

    phase: str
    round: int
    n_elements: int
    n_or_gates: int
    n_parameters: int
    l2: float
    train_loss: float
    train_log_loss: float
    train_accuracy: float
    valid: Quality
    n_iterations: int
    converged: bool
    improved: bool
    splits: tuple[ChosenSplit, ...]
    seconds: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Best:
    """The best weights so far: after how many rounds of splits, with which penalty, and what they reached; l2_squares,
    scale: where they are a mean with a fit by least squares, the penalty of that and what its logits are times."""

    round: int
    l2: float
    parameters: Parameters
    train_accuracy: float
    valid: Quality
    l2_squares: float | None = None
    scale: float = 1.0


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


@dataclass
class Clock:
    """Seconds by phase."""

    laps: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=monotonic)

    def lap(self, phase: str) -> None:
        now = monotonic()
        self.laps[phase] = self.laps.get(phase, 0.0) + now - self._last
        self._last = now
