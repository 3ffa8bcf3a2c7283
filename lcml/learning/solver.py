"""Minimise the objective: L-BFGS on the host, loss and gradient on the device.

Under one-vs-rest the loss is a sum of one convex loss per weight set, which share nothing but the passes over the data:
every set has its own curvature pairs and its own step; a pass evaluates the trial points of all of them at once.
Under the softmax there is one loss. Steps are taken in the variables of `lcml.learning.preconditioner`, 0 at the start.
Source: Nocedal & Wright, Numerical Optimization, 2nd ed.: the direction is Algorithm 7.4, the line search backtracks
(Algorithm 3.1) by interpolation (section 3.5) until the loss falls enough (Armijo's condition).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lcml.arrays import FloatArray
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parameters
from lcml.learning.preconditioner import Preconditioner

_SUFFICIENT = 1e-4  # share of the decrease that the slope promises which a step must reach (Nocedal & Wright's c1)

_LEAST_CUT, _MOST_CUT = 0.5, 0.1
"""A step that fails is cut to where a parabola through what is known is lowest, to a half of it at most (also where no
parabola opens upwards) and to a tenth at least: the interpolation may be far off."""

_LEAST_CURVATURE = 1e-10
"""Curvature pairs below this share of the gradient's change squared are rounding, and could not be inverted."""

_ROUNDING = 1e-8
"""A loss that is higher by this share is not: near the optimum its rounding hides whether it falls; the slope tells."""

_LEAST_STEP = 1e-8
"""A step shorter than this share of the direction means that rounding decides: there is nothing left to gain."""


@dataclass(frozen=True)
class SolverSettings:
    """max_iterations: steps of every weight set; tolerance: on the largest preconditioned gradient entry; memory:
    curvature pairs kept."""

    max_iterations: int = 100
    tolerance: float = 1e-5
    memory: int = 10


@dataclass(frozen=True, eq=False)
class Solution:
    """Where a solver stopped: its parameters, loss (penalty included), the most steps that a weight set took, and
    whether all met the tolerance."""

    parameters: Parameters
    loss: float
    n_iterations: int
    converged: bool


def never() -> bool:
    """No reason to stop early."""
    return False


def minimise(
    objective: Objective, start: Parameters, settings: SolverSettings, should_stop: Callable[[], bool] = never
) -> Solution:
    """Minimise `objective` from `start`; `should_stop` is asked after every pass and ends it with the best so far."""
    n_losses = objective.head.n_losses(objective.n_sets)

    with objective.features.backend.single_threaded_blas():
        preconditioner = Preconditioner.at(objective, start)

        def at(points: FloatArray) -> Parameters:
            step = preconditioner.step(_parameters(points, start))
            return Parameters(start.weights + step.weights, start.bias + step.bias)

        def evaluate(points: FloatArray) -> tuple[FloatArray, FloatArray]:
            losses, gradient = objective.value_and_gradient(at(points))
            return losses, _by_loss(preconditioner.slope(gradient), n_losses)

        points = np.zeros_like(_by_loss(start, n_losses))
        losses, slopes = evaluate(points)
        searches = [LBFGS(*values, settings) for values in zip(points, losses, slopes, strict=True)]
        while any(search.is_open for search in searches):
            trials = np.stack([search.trial() for search in searches])
            for search, loss, slope in zip(searches, *evaluate(trials), strict=True):
                search.update(loss, slope)
            if should_stop():
                break
        solution = at(np.stack([search.point for search in searches]))
    return Solution(
        solution,
        float(sum(search.loss for search in searches)),
        max(search.n_steps for search in searches),
        all(search.converged for search in searches),
    )


@dataclass(eq=False)
class LBFGS:
    """L-BFGS on one loss, a pass at a time: evaluate `trial()`, then `update` with what came out."""

    point: FloatArray
    loss: float
    slope: FloatArray
    settings: SolverSettings
    n_steps: int = 0
    is_open: bool = True
    pairs: list[tuple[FloatArray, FloatArray, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._set_direction()

    @property
    def converged(self) -> bool:
        return bool(np.max(np.abs(self.slope)) <= self.settings.tolerance)

    def trial(self) -> FloatArray:
        """Where to evaluate the loss next."""
        return self.point + self._step * self._direction if self.is_open else self.point

    def update(self, loss: float, slope: FloatArray) -> None:
        """Go to the trial point if its loss is low enough, else take a shorter step."""
        if not self.is_open:
            return
        promised = self._step * self._derivative
        rises = float(self._direction @ slope) > -self._derivative
        if loss <= self.loss + max(_SUFFICIENT * promised, -np.inf if rises else _ROUNDING * abs(self.loss)):
            change, bend = self._step * self._direction, slope - self.slope
            curvature = float(change @ bend)
            if curvature > _LEAST_CURVATURE * float(bend @ bend):
                self.pairs = [*self.pairs, (change, bend, curvature)][-self.settings.memory :]
            self.point, self.loss, self.slope = self.point + change, loss, slope
            self.n_steps += 1
            self._set_direction()
        else:
            excess = loss - self.loss - promised
            lowest = -0.5 * promised / excess if excess > 0 else _LEAST_CUT
            self._step *= min(max(lowest, _MOST_CUT), _LEAST_CUT) if np.isfinite(loss) else _MOST_CUT
            self.is_open = self._step > _LEAST_STEP

    def _set_direction(self) -> None:
        """The direction from here, and the first step to try along it."""
        direction = -self.slope
        shares = []
        for change, bend, curvature in reversed(self.pairs):
            shares.append(float(change @ direction) / curvature)
            direction -= shares[-1] * bend
        if self.pairs:
            _, bend, curvature = self.pairs[-1]
            direction *= curvature / float(bend @ bend)
        for (change, bend, curvature), share in zip(self.pairs, reversed(shares), strict=True):
            direction += (share - float(bend @ direction) / curvature) * change
        self._direction, self._derivative = direction, float(direction @ self.slope)
        self._step = 1.0 if self.pairs else 1.0 / max(1.0, float(np.linalg.norm(self.slope)))
        self.is_open = not self.converged and self.n_steps < self.settings.max_iterations


def _by_loss(parameters: Parameters, n_losses: int) -> FloatArray:
    """(n_losses, ...) the weights of every loss, then its biases."""
    sets = np.concatenate([parameters.weights, parameters.bias[:, None]], axis=1)
    return sets.reshape(n_losses, -1)


def _parameters(points: FloatArray, like: Parameters) -> Parameters:
    sets = points.reshape(len(like.bias), -1)
    return Parameters(sets[:, :-1], sets[:, -1])
