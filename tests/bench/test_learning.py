"""pytest-benchmark: what a round of learning is made of, each step on numpy and numba.

LCML_DATA_DIR=... pytest tests/bench/test_learning.py -o addopts="" --benchmark-only
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcml.backend import Backend, NumbaBackend, NumpyBackend
from lcml.circuits import vtree as vtrees
from lcml.circuits.parts import Part
from lcml.circuits.views import IdentityView, View, WindowView, window_vtree
from lcml.circuits.vtree import Vtree
from lcml.data import load_splits
from lcml.formats import load_model, save_model
from lcml.inputs.encoders import fit_encoder
from lcml.learning.learner import Learner
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parametrisation
from lcml.learning.scoring import score_splits
from lcml.learning.selection import apply_within, choose_splits
from lcml.learning.settings import LearnSettings
from lcml.learning.solver import SolverSettings, minimise
from lcml.learning.state import EncodedSet
from lcml.model.model import LogisticCircuit
from lcml.passes.feature_store import FeatureStore

BACKENDS = [NumpyBackend(), NumbaBackend()]
VIEWS: dict[str, tuple[View, Vtree]] = {
    "whole": (IdentityView(784), vtrees.grid(28, 28)),
    "windows": (view := WindowView((1, 28, 28), (7, 7), (2, 2), grid=(4, 4), root=True), window_vtree(view)),
}


@pytest.fixture(scope="module")
def sets(data_dir: Path) -> tuple[EncodedSet, EncodedSet]:
    splits = load_splits("mnist", data_dir=data_dir, train_fraction=0.05)
    encoder = fit_encoder("scale", splits.train.features[:], shared=True)
    train, valid = (EncodedSet(encoder.encode(p.features[:]), p.labels) for p in (splits.train, splits.valid))
    return train, valid


@pytest.fixture(scope="module", params=list(VIEWS))
def grown(request: Any, sets: tuple[EncodedSet, EncodedSet]) -> tuple[Part, ...]:
    learner = Learner([VIEWS[request.param]], *sets, 10, LearnSettings(rounds=3), BACKENDS[1])
    for _ in learner.grow():
        pass
    return learner.parts


def objective(parts: tuple[Part, ...], train: EncodedSet, backend: Backend) -> Objective:
    store = FeatureStore(parts, train.values, backend, precision="fixed16")
    return Objective(store, train.labels, 10, l2=1e-4, parametrisation=Parametrisation(parts, literals=True))


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
class TestRound:
    def test_features(self, benchmark: Any, grown: Any, sets: Any, backend: Backend) -> None:
        FeatureStore(grown, sets[0].values[:10], backend, precision="fixed16")
        benchmark(FeatureStore, grown, sets[0].values, backend, precision="fixed16")

    def test_a_pass(self, benchmark: Any, grown: Any, sets: Any, backend: Backend) -> None:
        problem = objective(grown, sets[0], backend)
        with backend.single_threaded_blas():
            benchmark(problem.value_and_gradient, problem.zeros())

    def test_fitting(self, benchmark: Any, grown: Any, sets: Any, backend: Backend) -> None:
        problem = objective(grown, sets[0], backend)
        benchmark(minimise, problem, problem.zeros(), SolverSettings(20))

    def test_scoring(self, benchmark: Any, grown: Any, sets: Any, backend: Backend) -> None:
        problem = objective(grown, sets[0], backend)
        benchmark(score_splits, problem, problem.zeros(), chunks=[0, 1])


def test_splitting(benchmark: Any, grown: Any, sets: Any) -> None:
    problem = objective(grown, sets[0], BACKENDS[1])
    candidates = score_splits(problem, problem.zeros(), chunks=[0])
    chosen = choose_splits(grown, candidates, sum(p.circuit.n_elements * p.view.n_cells for p in grown) // 3)
    benchmark(apply_within, grown, chosen, None)


def test_saving_and_loading(benchmark: Any, grown: tuple[Part, ...], sets: Any, tmp_path: Path) -> None:
    encoder = fit_encoder("divide", sets[0].values, 1.0)
    weights = np.random.default_rng(0).normal(size=(10, sum(part.n_features for part in grown)))
    model = LogisticCircuit(encoder, grown, tuple(range(10)), weights, np.zeros(10))

    def both() -> None:
        save_model(model, tmp_path / "model.lcml")
        load_model(tmp_path / "model.lcml")

    benchmark(both)
