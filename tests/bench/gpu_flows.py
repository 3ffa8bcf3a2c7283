"""The flow pass on a CUDA device: bytes per second, beside what a copy from device to device reaches.

    LCML_DATA_DIR=... python -m tests.bench.gpu_flows

Prints a JSON object. `least` counts what any program must move, inputs in, flows out; `all` what the kernel asks for,
its scratch included, much of which caches may serve.
"""

import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lcml.backend import CupyBackend
from lcml.backend.kernels import cuda
from lcml.circuits.circuit import Circuit
from lcml.model.model import LogisticCircuit
from tests.bench.circuits import mnist_model

N_EXAMPLES = 1 << 16
ROUNDS = 9
COPIED = 1 << 30


def bytes_per_example(circuit: Circuit, itemsize: int = 4) -> tuple[int, int]:
    """(least, all) bytes that the flows of one example take."""
    least = circuit.n_variables + circuit.n_literals + circuit.n_elements
    to_gates = np.concatenate([circuit.elem_prime, circuit.elem_sub]) >= circuit.n_literals
    wires, gates = int(to_gates.sum()), circuit.n_or_gates
    up = 2 * circuit.n_elements + gates
    down = 3 * circuit.n_elements + gates + wires + (wires - (gates - 1))
    return least * itemsize, (up + down + 2 * circuit.n_literals) * itemsize


def milliseconds(xp: Any, task: Callable[[], object]) -> float:
    task()
    times = []
    for _ in range(ROUNDS):
        start, stop = xp.cuda.Event(), xp.cuda.Event()
        start.record()
        task()
        stop.record()
        stop.synchronize()
        times.append(xp.cuda.get_elapsed_time(start, stop))
    return float(statistics.median(times))


def main() -> None:
    backend = CupyBackend()
    xp = backend.xp
    directory = os.environ.get("LCML_DATA_DIR")
    model: LogisticCircuit = mnist_model(None if directory is None else Path(directory))
    circuit = model.circuit
    x = xp.random.default_rng(0).random((circuit.n_variables, N_EXAMPLES), dtype=np.float32)
    packed = cuda.pack(circuit.or_start, circuit.elem_prime, circuit.elem_sub, circuit.n_variables)
    or_start, primes, subs = (xp.asarray(values) for values in packed)
    structure = or_start, primes, subs, circuit.is_tautology
    scratch = xp.empty(cuda.scratch_shape(structure, x), dtype=x.dtype)
    out = xp.empty((circuit.n_literals + circuit.n_elements, N_EXAMPLES), dtype=x.dtype)
    weights = xp.asarray(np.ascontiguousarray(model.flat_weights.T), dtype=x.dtype)
    sums = xp.empty((weights.shape[1], N_EXAMPLES), dtype=x.dtype)
    source, target = xp.zeros(COPIED, dtype=np.uint8), xp.empty(COPIED, dtype=np.uint8)
    copy = 2 * COPIED / milliseconds(xp, lambda: xp.copyto(target, source)) / 1e6
    flows = milliseconds(xp, lambda: cuda.flows_into(xp, structure, x, scratch, out))
    logits = milliseconds(xp, lambda: cuda.logits_into(xp, structure, x, weights, scratch, sums))
    least, everything = (size * N_EXAMPLES / flows / 1e6 for size in bytes_per_example(circuit))
    found = {
        "device": backend.device,
        "n_elements": circuit.n_elements,
        "n_examples": N_EXAMPLES,
        "n_threads": scratch.shape[1],
        "copy_gb_per_second": copy,
        "flows_ms": flows,
        "flows_least_gb_per_second": least,
        "flows_all_gb_per_second": everything,
        "flows_least_share_of_copy": least / copy,
        "flows_all_share_of_copy": everything / copy,
        "flows_element_evaluations_per_second": 1e3 * circuit.n_elements * N_EXAMPLES / flows,
        "logits_ms": logits,
        "logits_element_evaluations_per_second": 1e3 * circuit.n_elements * N_EXAMPLES / logits,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
