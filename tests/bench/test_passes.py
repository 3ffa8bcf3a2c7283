"""Passes, features, logits, saving, loading, splitting and scoring, with their baselines; not a default test.

    LCML_DATA_DIR=... python -m pytest tests/bench/test_passes.py -o addopts="" --benchmark-group-by=group

Goals are asserted as ratios within one process, contestants taking turns, with what other work leaves of the machine.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from lcml import load_model, save_model
from lcml.backend import Backend, NumbaBackend, NumpyBackend
from lcml.circuits import vtree
from lcml.circuits.parts import Part
from lcml.circuits.splits import apply_splits
from lcml.circuits.views import IdentityView
from lcml.learning.objective import Objective
from lcml.learning.scoring import score_splits
from lcml.model.model import LogisticCircuit
from lcml.passes.feature_map import FeatureMap
from lcml.passes.feature_store import FeatureStore
from lcml.passes.flows import example_flows
from lcml.passes.plan import compile_plan
from lcml.runs.reproduce.benchmark import BASELINE, REFERENCE, SparseBackend, interleaved, random_inputs
from tests.bench.circuits import mnist_model
from tests.worlds import grown, random_splits

N_EXAMPLES = 1024
BACKENDS = {backend.name: backend for backend in (NumpyBackend(), SparseBackend(), NumbaBackend())}


@pytest.fixture(scope="module")
def model() -> LogisticCircuit:
    directory = os.environ.get("LCML_DATA_DIR")
    return mnist_model(None if directory is None else Path(directory))


def passes(model: LogisticCircuit, backend: Backend) -> Callable[[], object]:
    """All flows of the examples, chunk by chunk, on all cores; they are not kept."""
    plan = compile_plan(model.circuit, backend)
    q = np.random.default_rng(0).random((N_EXAMPLES, 784), dtype=np.float32)
    size = backend.chunk_examples

    def chunk(first: int) -> None:
        example_flows(plan, q[first : first + size])

    return lambda: list(backend.map(chunk, range(0, N_EXAMPLES, size)))


@pytest.mark.benchmark(group="passes")
@pytest.mark.parametrize("name", BACKENDS)
def test_passes(benchmark: BenchmarkFixture, model: LogisticCircuit, name: str) -> None:
    benchmark(passes(model, BACKENDS[name]))


def test_the_fused_passes_reach_their_goals(model: LogisticCircuit) -> None:
    """Ten times the level-by-level passes with sparse matrices, and 0.45e9 elements per second on two cores."""
    times = interleaved({name: passes(model, backend) for name, backend in BACKENDS.items()}, rounds=7, seconds=0.1)
    rates = {name: N_EXAMPLES * model.n_elements / seconds / 1e9 for name, seconds in times.items()}
    print({name: f"{rate:.3f}e9 elements/s, x{rate / rates[REFERENCE]:.1f}" for name, rate in rates.items()})
    assert rates["numba"] >= 10 * rates[BASELINE]
    assert rates["numba"] >= 0.45


@pytest.mark.benchmark(group="features")
@pytest.mark.parametrize("name", BACKENDS)
def test_features(benchmark: BenchmarkFixture, model: LogisticCircuit, name: str) -> None:
    backend, part = BACKENDS[name], model.parts[0]
    q = np.random.default_rng(0).random((backend.chunk_examples, 784), dtype=np.float32)
    benchmark(FeatureMap(part.view, part.circuit, part.flows, backend).values, q)


@pytest.mark.benchmark(group="logits")
@pytest.mark.parametrize("name", BACKENDS)
def test_logits(benchmark: BenchmarkFixture, model: LogisticCircuit, name: str) -> None:
    benchmark(model.logits, random_inputs(model.encoder, N_EXAMPLES, seed=0), BACKENDS[name])


@pytest.mark.benchmark(group="files")
def test_saving(benchmark: BenchmarkFixture, model: LogisticCircuit, tmp_path: Path) -> None:
    benchmark(save_model, model, tmp_path / "m.lcml")


@pytest.mark.benchmark(group="files")
def test_loading(benchmark: BenchmarkFixture, model: LogisticCircuit, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m.lcml")
    loaded: Any = benchmark(load_model, tmp_path / "m.lcml")
    assert loaded.n_elements == model.n_elements


@pytest.mark.benchmark(group="growth")
def test_splitting(benchmark: BenchmarkFixture) -> None:
    circuit = grown(vtree.grid(8, 8), seed=0, rounds=4, per_round=60)
    splits = random_splits(circuit, np.random.default_rng(1), 100)
    result: Any = benchmark(apply_splits, circuit, splits)
    assert result.circuit.n_elements > circuit.n_elements


@pytest.mark.benchmark(group="growth")
@pytest.mark.parametrize("name", BACKENDS)
def test_scoring(benchmark: BenchmarkFixture, name: str) -> None:
    circuit, generator = grown(vtree.grid(8, 8), seed=0, rounds=4, per_round=60), np.random.default_rng(2)
    q, labels = generator.random((2000, 64), dtype=np.float32), generator.integers(0, 10, 2000)
    store = FeatureStore([Part.full(IdentityView(64), circuit)], q, BACKENDS[name])
    objective = Objective(store, labels, 10, l2=1e-3)
    candidates: Any = benchmark(score_splits, objective, objective.zeros())
    assert len(candidates.element)
