"""Time and passes over the data that solvers need to the same loss, one-vs-rest on the same circuit features.

    LCML_DATA_DIR=... python -m tests.bench.solvers [--train-fraction 0.2] [--l2 3e-5]

The circuit is grown on MNIST for a few rounds. The reference loss is that of a long run; a solver's time is that until
its loss (penalty included) is within a share of it. All run in one process, on two threads at most.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, SGDClassifier

from lcml.backend import get_backend
from lcml.circuits import vtree as vtrees
from lcml.circuits.views import IdentityView
from lcml.data import load_splits
from lcml.inputs.encoders import fit_encoder
from lcml.learning.learner import Learner
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parameters, Parametrisation
from lcml.learning.settings import LearnSettings
from lcml.learning.solver import SolverSettings, minimise
from lcml.learning.state import EncodedSet
from lcml.passes.feature_store import FeatureStore

SHARES = (1e-1, 1e-2, 1e-3)
"""A solver is timed until its loss exceeds the reference by less than these shares."""


MOST_PASSES = 320


class Enough(Exception):  # noqa: N818  # no error
    """A solver has had MOST_PASSES or has reached its goal."""


class Counted(Objective):
    """An objective that keeps when, and after how many passes, every loss was reached; `goal` ends it."""

    goal = -np.inf

    def start(self) -> Self:
        self.began, self.passes, self.trace = time.perf_counter(), 0.0, list[tuple[float, float, float]]()
        return self

    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.began

    def value_and_gradient(self, parameters: Parameters, chunks: Any = None) -> tuple[NDArray[np.float64], Parameters]:
        if self.passes >= MOST_PASSES or (self.trace and self.trace[-1][2] <= self.goal):
            raise Enough
        value = super().value_and_gradient(parameters, chunks)
        self.passes += 1
        self.trace.append((self.spent(), self.passes, float(value[0].sum())))
        return value

    def curvature_bound(self, parameters: Parameters) -> Parameters:
        self.passes += 1
        return super().curvature_bound(parameters)


def joint_lbfgs(objective: Counted, start: Parameters) -> None:
    """scipy's L-BFGS-B on all weight sets at once, preconditioned as lcml's is."""
    scale = 1 / np.sqrt(objective.curvature_bound(start).flat())

    def function(u: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = objective.value_and_gradient(start.from_flat(u * scale))
        return float(value.sum()), gradient.flat() * scale

    options = {"maxiter": 300, "maxcor": 10, "ftol": 0.0, "gtol": 1e-9}
    minimize(function, start.flat() / scale, jac=True, method="L-BFGS-B", options=options)


def newton_cg(objective: Counted, start: Parameters) -> None:
    """scipy's Newton-CG; products with the Hessian by differences of gradients: one pass each."""
    scale = 1 / np.sqrt(objective.curvature_bound(start).flat())

    def function(u: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = objective.value_and_gradient(start.from_flat(u * scale))
        return float(value.sum()), gradient.flat() * scale

    minimize(function, start.flat() / scale, jac=True, method="Newton-CG", options={"maxiter": 12, "xtol": 1e-9})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-fraction", type=float, default=0.2)
    parser.add_argument("--l2", type=float, default=3e-5)
    arguments = parser.parse_args()
    splits = load_splits("mnist", train_fraction=arguments.train_fraction)
    encoder = fit_encoder("scale", splits.train.features, shared=True)
    train, valid = (EncodedSet(encoder.encode(part.features), part.labels) for part in (splits.train, splits.valid))
    backend = get_backend("auto")
    settings = LearnSettings(rounds=4, precision="float32")
    learner = Learner([(IdentityView(784), vtrees.grid(28, 28))], train, valid, 10, settings, backend)
    for _ in learner.grow():
        pass
    store = FeatureStore(learner.parts, train.values, backend, precision="float32")
    plain, lifted = Parametrisation(learner.parts), Parametrisation(learner.parts, literals=True)
    reference = Objective(store, train.labels, 10, l2=arguments.l2, parametrisation=lifted)
    best = minimise(reference, reference.zeros(), SolverSettings(1500, 1e-7)).loss
    print(f"{len(train.labels)} examples, {store.n_features} features, reference loss {best:.5f}", flush=True)

    runs: dict[str, tuple[Parametrisation, Callable[[Counted, Parameters], Any]]] = {
        "lcml, a step per set": (lifted, lambda o, start: minimise(o, start, SolverSettings(300, 1e-9))),
        "scipy L-BFGS-B, joint": (lifted, joint_lbfgs),
        "scipy Newton-CG, joint": (lifted, newton_cg),
    }
    for name, (parametrisation, run) in runs.items():
        objective = Counted(store, train.labels, 10, l2=arguments.l2, parametrisation=parametrisation).start()
        with suppress(Enough):
            run(objective, objective.zeros())
        cells = []
        for share in SHARES:
            reached = next(((t, n) for t, n, loss in objective.trace if loss <= best * (1 + share)), None)
            cells.append("not reached" if reached is None else f"{reached[0]:6.1f} s {reached[1]:4.0f} passes")
        print(f"{name:28}" + " | ".join(cells), flush=True)

    features = np.concatenate(list(store.map(lambda _, chunk: chunk.values().T)))
    independent = Objective(store, train.labels, 10, l2=arguments.l2, parametrisation=plain)
    for name, model in (
        ("scikit-learn lbfgs", LogisticRegression(C=1 / (arguments.l2 * len(features)), max_iter=100, tol=1e-4)),
        ("scikit-learn SGD", SGDClassifier(loss="log_loss", alpha=arguments.l2, max_iter=20, tol=None, n_jobs=2)),
    ):
        began = time.perf_counter()
        for k in range(10) if isinstance(model, LogisticRegression) else (None,):
            model.fit(features, train.labels if k is None else train.labels == k)
        print(f"{name:28}{time.perf_counter() - began:6.1f} s for its own stop, on independent features")
    began = time.perf_counter()
    minimise(independent, independent.zeros(), SolverSettings(100, 1e-4))
    print(f"{'lcml on independent features':28}{time.perf_counter() - began:6.1f} s for 100 steps or 1e-4")


if __name__ == "__main__":
    main()
