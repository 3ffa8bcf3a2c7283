"""Minimise the objective by mini-batches: for features that are recomputed because they, or the data, exceed memory.

Adam (Kingma & Ba, ICLR 2015) over the chunks of the feature store in a new random order every epoch, with a step size
that falls to 0 as a cosine: the noise of the batches dies out with it.
"""

from collections.abc import Callable

import numpy as np

from lcml.learning.objective import Objective
from lcml.learning.parameters import Parameters
from lcml.learning.solver import Solution, SolverSettings, never

_STEP, _BETA1, _BETA2, _EPSILON = 0.1, 0.9, 0.99, 1e-8
_ITERATIONS_PER_EPOCH = 4
"""An epoch counts as so many iterations of a full-batch solver, each of which reads the data about once."""


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
    n_epochs = max(2, settings.max_iterations // _ITERATIONS_PER_EPOCH)
    theta = start.flat()
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    step, previous, converged = 0, np.inf, False
    n_done = 0
    while n_done < n_epochs:
        n_done += 1
        losses = []
        for chunk in generator.permutation(n_chunks).tolist():
            loss, gradient = objective.value_and_gradient(start.from_flat(theta), [chunk])
            losses.append(loss.sum())
            slope = gradient.flat()
            step += 1
            first += (1 - _BETA1) * (slope - first)
            second += (1 - _BETA2) * (slope * slope - second)
            rate = _STEP * 0.5 * (1 + np.cos(np.pi * step / (n_epochs * n_chunks)))
            corrected = np.sqrt(second / (1 - _BETA2**step)) + _EPSILON
            theta = theta - rate * (first / (1 - _BETA1**step)) / corrected
            if should_stop():
                break
        mean = float(np.mean(losses))
        converged = abs(previous - mean) <= settings.tolerance * abs(mean)
        previous = mean
        if converged or should_stop():
            break
    solution = start.from_flat(theta)
    return Solution(solution, float(objective.value_and_gradient(solution)[0].sum()), n_done, converged)
