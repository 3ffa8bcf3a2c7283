"""What a cluster costs and brings: python tests/bench/cluster.py [ROWS ...]

Passes over the features of random examples of 100 columns, by one process of two threads, and by one and two Dask
workers of a thread each on the same machine, in turn; and the bytes that a worker is sent, and sends, in a pass.
"""

import logging
import sys
from time import perf_counter

import numpy as np
from distributed import Client, LocalCluster

from lcml.backend import get_backend
from lcml.circuits import vtree as vtrees
from lcml.circuits.parts import initial_part
from lcml.circuits.views import IdentityView
from lcml.data.cluster.engine import ClusterEngine
from lcml.learning.objective import Objective
from lcml.passes.feature_store import Features, FeatureStore
from lcml.passes.spread_store import SpreadStore

COLUMNS, PASSES = 100, 12


def seconds(objective: Objective) -> float:
    """The median of several passes."""
    found, zero = [], objective.zeros()
    for _ in range(PASSES):
        start = perf_counter()
        objective.value_and_gradient(zero)
        found.append(perf_counter() - start)
    return float(np.median(found))


def sent(objective: Objective, client: Client) -> float:
    """Bytes that workers receive and send in a pass, together."""

    def total() -> int:
        def own(dask_worker: object) -> int:
            with open("/proc/net/dev") as file:  # of the loopback: what one sends another receives
                return int(next(line for line in file if "lo:" in line).split()[1])

        return int(next(iter(client.run(own).values())))

    before = total()
    objective.value_and_gradient(objective.zeros())
    return total() - before


def main() -> None:
    part, backend = initial_part(IdentityView(COLUMNS), vtrees.balanced(COLUMNS)), get_backend("numba")
    print(f"{part.n_features} features; examples/s of a pass, and bytes on the wire")
    for n in [int(rows) for rows in sys.argv[1:]] or [2000, 20_000, 200_000]:
        rng = np.random.default_rng(0)
        q, labels = rng.random((n, COLUMNS), np.float32), rng.integers(0, 2, n)

        def objective(features: Features, labels: np.ndarray = labels) -> Objective:
            return Objective(features, labels, 2, l2=1e-4)

        told = [("one process", seconds(objective(FeatureStore([part], q, backend, precision="fixed16"))), 0.0)]
        for n_workers in (1, 2):
            with (
                LocalCluster(
                    n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.ERROR
                ) as cluster,
                Client(cluster) as client,
            ):
                engine = ClusterEngine(client)
                store = SpreadStore(
                    engine,
                    [part],
                    q,
                    backend,
                    precision="fixed16",
                    budget=engine.memory_budget(),
                    most_features=None,
                )
                there = objective(store)
                took = seconds(there)
                told.append((f"{n_workers} workers", took, sent(there, client)))
        for name, took, n_bytes in told:
            print(f"{n:9,} rows  {name:12} {took * 1e3:8.1f} ms {n / took:12,.0f} examples/s {n_bytes:10,.0f} bytes")


if __name__ == "__main__":
    main()
