"""Minimise the objective by mini-batches: for features that are recomputed because they, or the data, exceed memory.

Adam (Kingma & Ba, ICLR 2015) over the chunks of the feature store in a new random order every epoch, with a step size
that falls to 0 as a cosine: the noise of the batches dies out with it.
"""

from collections.abc import Callable

import numpy as np

from lcml.learning.objective import Objective
from lcml.learning.parameters import Parameters
from lcml.learning.solver import Solution, SolverSettings, never

_STEP = 0.1  # the first step of every weight; features are in [0, 1], so that weights of use are a few units large

_MOMENTUM, _SQUARES_MOMENTUM, _EPSILON = 0.9, 0.99, 1e-8
"""Adam's beta1, beta2 and epsilon; beta2 below its default of 0.999: a fit has some hundred batches, not thousands."""

_ITERATIONS_PER_EPOCH = 4
"""An epoch counts as so many iterations of a full-batch solver, each of which reads the data about once."""

_LEAST_EPOCHS = 2  # fewer epochs could not tell whether the loss still falls


def minimise_minibatch(
    objective: Objective,
    start: Parameters,
    settings: SolverSettings,
    seed: int,
    should_stop: Callable[[], bool] = never,
) -> Solution:
    """Minimise `objective` from `start` in settings.max_iterations / 4 epochs (at least 2).

    Ends early when an epoch's mean loss changes by less than settings.tolerance of itself, or when `should_stop`.
    """
    generator = np.random.default_rng(seed)
    n_chunks = objective.features.n_chunks
    n_epochs = max(_LEAST_EPOCHS, settings.max_iterations // _ITERATIONS_PER_EPOCH)
    theta = start.flat()
    mean, mean_square = np.zeros_like(theta), np.zeros_like(theta)
    step, n_done, before, converged = 0, 0, np.inf, False
    while n_done < n_epochs:
        n_done += 1
        losses = []
        for chunk in generator.permutation(n_chunks).tolist():
            loss, gradient = objective.value_and_gradient(start.from_flat(theta), [chunk])
            losses.append(loss.sum())
            slope = gradient.flat()
            step += 1
            mean += (1 - _MOMENTUM) * (slope - mean)
            mean_square += (1 - _SQUARES_MOMENTUM) * (slope * slope - mean_square)
            rate = _STEP * 0.5 * (1 + np.cos(np.pi * step / (n_epochs * n_chunks)))
            scale = np.sqrt(mean_square / (1 - _SQUARES_MOMENTUM**step)) + _EPSILON
            theta = theta - rate * (mean / (1 - _MOMENTUM**step)) / scale
            if should_stop():
                break
        now = float(np.mean(losses))
        converged = abs(before - now) <= settings.tolerance * abs(now)
        before = now
        if converged or should_stop():
            break
    solution = start.from_flat(theta)
    return Solution(solution, float(objective.value_and_gradient(solution)[0].sum()), n_done, converged)
