"""Minimise the objective: L-BFGS on the host, loss and gradient on the device.

The weight vector is small, so scipy's L-BFGS-B runs on the host. It sees u = sqrt(d) theta with d the diagonal of the
Hessian at the start: features that rarely flow get steps as large as their curvature allows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lcml.model import FloatArray
from lcml.objective import Objective, Parameters

_CURVATURE_FLOOR = 1e-3
"""Diagonal entries below this share of the mean are raised to it: a flat direction must not get an endless step."""


@dataclass(frozen=True)
class SolverSettings:
    """max_iterations: of L-BFGS; tolerance: on the largest preconditioned gradient entry; memory: of L-BFGS."""

    max_iterations: int = 100
    tolerance: float = 1e-5
    memory: int = 10


@dataclass(frozen=True, eq=False)
class Solution:
    """Where a solver stopped: its parameters, loss (penalty included), iterations, and whether it met its tolerance."""

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
    """Minimise `objective` from `start`; `should_stop` is asked after every iteration and ends it with the best so
    far."""
    from scipy.optimize import minimize

    diagonal = objective.hessian_diagonal(start).flat()
    scale = 1 / np.sqrt(np.maximum(diagonal, _CURVATURE_FLOOR * diagonal.mean()))

    def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective.value_and_gradient(start.from_flat(u * scale))
        return value, gradient.flat() * scale

    def after_iteration(intermediate_result: object) -> None:
        if should_stop():
            raise StopIteration

    with objective.features.backend.single_threaded_blas():
        result = minimize(
            value_and_gradient,
            start.flat() / scale,
            jac=True,
            method="L-BFGS-B",
            callback=after_iteration,
            options={
                "maxiter": settings.max_iterations,
                "maxcor": settings.memory,
                "gtol": settings.tolerance,
                "ftol": 0.0,
                "maxfun": 4 * settings.max_iterations,
            },
        )
    return Solution(start.from_flat(result.x * scale), float(result.fun), int(result.nit), result.status == 0)
