"""How fast a model is on this machine, backend by backend and beside plain alternatives.

Contestants take turns, round after round, so that what else the machine does hits all of them; medians count.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Array, Backend, NumpyBackend, cuda_is_available, get_backend
from lcml.errors import MissingDependencyError
from lcml.inputs.encoding import Encoder
from lcml.inputs.rows import Matrix
from lcml.inputs.table import Table
from lcml.model.model import LogisticCircuit
from lcml.passes.feature_map import FeatureMap

_Name = TypeVar("_Name")

BATCH_SIZES = (1, 32, 1024, 8192)
ROUNDS = 3
SECONDS = 0.02
"""A measurement repeats its work for at least this long."""

REFERENCE, BASELINE = "numpy", "scipy-sparse"


class SparseBackend(NumpyBackend):
    """The baseline: numpy, whose passes sum a level's elements by the product with a sparse matrix of scipy."""

    name = BASELINE

    def __init__(self) -> None:
        super().__init__()
        self._matrices: dict[int, tuple[Array, Array]] = {}

    def segment_sum(self, rows: Array, offsets: Array) -> Array:
        from scipy.sparse import csr_array

        if id(offsets) not in self._matrices:
            ones, columns = np.ones(len(rows), rows.dtype), np.arange(len(rows))
            matrix = csr_array((ones, columns, offsets), shape=(len(offsets) - 1, len(rows)))
            self._matrices[id(offsets)] = offsets, matrix  # keeps the offsets, and so their id
        return self._matrices[id(offsets)][1] @ rows


@dataclass(frozen=True)
class Speed:
    """Examples per second in batches of `batch_size`: `features` computes all features of the model from encoded
    examples, `predictions` the labels from raw ones; ratios to the same of the reference and the baseline."""

    backend: str
    batch_size: int
    features_per_second: float
    predictions_per_second: float
    element_evaluations_per_second: float
    features_to_numpy: float
    features_to_scipy_sparse: float
    predictions_to_numpy: float
    predictions_to_scipy_sparse: float


def element_evaluations(model: LogisticCircuit) -> int:
    """Elements that one example's features take: those of every part at every position."""
    return sum(part.circuit.n_elements * part.view.n_positions for part in model.parts)


def available_backends() -> list[Backend]:
    """Every backend that works here, the reference first, and the baseline."""
    found: list[Backend] = [get_backend("numpy"), SparseBackend()]
    with suppress(MissingDependencyError):
        found.append(get_backend("numba"))
    if cuda_is_available():
        found.append(get_backend("cupy"))
    return found


def random_inputs(encoder: Encoder, n_examples: int, seed: int) -> Any:
    """(n_examples, n_features) raw examples, float32 or a table, uniform over the encoder's range."""
    shares = np.random.default_rng(seed).random((n_examples, encoder.n_features), dtype=np.float32)
    found = encoder.inputs_at(shares.astype(np.float64))
    return found if isinstance(found, Table) else np.asarray(found, dtype=np.float32)


def measure(
    model: LogisticCircuit,
    inputs: Matrix,
    backends: Sequence[Backend],
    batch_sizes: Sequence[int] = BATCH_SIZES,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
) -> list[Speed]:
    """The speeds of all `backends`, the reference and the baseline too, on raw `inputs`, as often as a batch needs."""
    speeds = []
    for size in batch_sizes:
        batch = inputs[np.arange(size) % len(inputs)]
        tasks: dict[tuple[str, str], Callable[[], object]] = {}
        for backend in backends:
            tasks[backend.name, "features"] = _features(model, batch, backend)
            tasks[backend.name, "predictions"] = partial(model.predict, batch, backend)
        times = interleaved(tasks, rounds, seconds)
        rates = {task: size / time for task, time in times.items()}
        for name in (backend.name for backend in backends):
            ratios = {
                f"{what}_to_{other.replace('-', '_')}": rates[name, what] / rates[other, what]
                for what in ("features", "predictions")
                for other in (REFERENCE, BASELINE)
            }
            features, predictions = rates[name, "features"], rates[name, "predictions"]
            speeds.append(Speed(name, size, features, predictions, features * element_evaluations(model), **ratios))
    return speeds


def interleaved(
    tasks: Mapping[_Name, Callable[[], object]], rounds: int = ROUNDS, seconds: float = SECONDS
) -> dict[_Name, float]:
    """The median seconds of a call of every task, which take turns; each is called once before."""
    found: dict[_Name, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(rounds):
        for name, task in tasks.items():
            n_calls, start = 0, perf_counter()
            while n_calls == 0 or perf_counter() - start < seconds:
                task()
                n_calls += 1
            found[name].append((perf_counter() - start) / n_calls)
    return {name: statistics.median(times) for name, times in found.items()}


def _features(model: LogisticCircuit, batch: NDArray[np.generic], backend: Backend) -> Callable[[], object]:
    maps = [FeatureMap(part.view, part.circuit, part.flows, backend) for part in model.parts]
    inputs, size = model.encoder.encode(batch), backend.chunk_examples

    def chunk(first: int) -> None:
        examples = backend.asarray(inputs[first : first + size], dtype=np.float32)
        for feature_map in maps:
            values = feature_map.values(examples)
        backend.to_host(values[-1:, -1:])  # waits for a device

    firsts = range(0, len(batch), size)
    return lambda: list(backend.map(chunk, firsts) if len(firsts) > 1 else map(chunk, firsts))
