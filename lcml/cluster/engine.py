"""A Dask cluster as what holds the rows of a training."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import Client, LocalCluster
from numpy.typing import NDArray

from lcml.arrays import even_cuts
from lcml.cluster.shards import Recipe, Shards, working
from lcml.errors import ClusterError, SettingsError
from lcml.inputs.rows import Matrix
from lcml.spread import Holder, Spread

CONNECT_SECONDS = 20.0

FEATURES_SHARE = 0.5
"""Of the memory of a worker: at 0.8 of it dask pauses the worker."""


class ClusterEngine:
    """The workers of a client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._made: list[Shards[Any]] = []

    def memory_budget(self) -> int:
        """Bytes that features may take, on all workers together."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return int(FEATURES_SHARE * sum(about["memory_limit"] for about in workers))

    def spread(
        self, make: Callable[..., Holder], rows: Matrix, *by_row: NDArray[Any], multiple: int = 1, **options: Any
    ) -> Spread[Holder]:
        """As `lcml.spread.Engine`, one holder per worker."""
        n_rows, n_units = len(rows), -(-len(rows) // multiple)
        cuts = np.unique(even_cuts(n_units, len(working(self.client))))
        starts = np.minimum(np.asarray(cuts) * multiple, n_rows).tolist()
        own = [slice(first, stop) for first, stop in pairwise(starts)]
        recipes = [Recipe(make, _part(rows, of), [array[of] for array in by_row], options) for of in own]
        self._made.append(Shards(self.client, recipes, starts))
        return self._made[-1]

    def close(self) -> None:
        """Have the workers forget all holders."""
        for shards in self._made:
            shards.close()


@contextmanager
def connected(address: str) -> Iterator[ClusterEngine]:
    """The cluster whose scheduler is at tcp://HOST:PORT, or local:N, of as many processes on this machine.

    Raises SettingsError for what is neither, ClusterError where no scheduler, or no worker, answers.
    """
    with ExitStack() as stack:
        n_workers = 0
        if address.startswith("local:"):
            number = address.removeprefix("local:")
            if not (number.isdecimal() and 0 < int(number) <= MOST_LOCAL):
                raise SettingsError(f"cluster: expected local:N of 1 to {MOST_LOCAL} processes, found {address!r}")
            n_workers = int(number)
            cluster = LocalCluster(
                n_workers, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
            )
            stack.enter_context(cluster)
            client = stack.enter_context(Client(cluster))
        elif "://" in address:
            try:
                client = stack.enter_context(Client(address, timeout=CONNECT_SECONDS))
            except OSError as error:
                raise ClusterError(
                    f"no scheduler answers at {address} ({error}); start one, or give its address"
                ) from error
        else:
            raise SettingsError(f"cluster: expected tcp://HOST:PORT or local:N, found {address!r}")
        engine = stack.enter_context(engine_of(client))
        yield engine


@contextmanager
def engine_of(client: Client) -> Iterator[ClusterEngine]:
    """The workers of a client, which forget at the end. Raises ClusterError where there are none."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise ClusterError(f"no worker is at {client.scheduler.address}; start some") from None
    engine = ClusterEngine(client)
    try:
        yield engine
    finally:
        engine.close()


MOST_LOCAL = 1024


def _part(rows: Matrix, of: slice) -> Matrix:
    """Rows of an array, or what reads them on the cluster."""
    return rows[of]
