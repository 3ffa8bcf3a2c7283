"""A Dask cluster as what holds the rows of a training."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster
from numpy.typing import NDArray

from lcml.arrays import even_cuts
from lcml.backend.spread import Holder, Spread
from lcml.data.cluster.pieces import Pieces, parquet_parts
from lcml.data.cluster.shards import Recipe, Shards, working
from lcml.data.parquet import part_paths
from lcml.data.raw import RawSet
from lcml.errors import ClusterError, DataError, SettingsError
from lcml.inputs.encoding import EncodedRows
from lcml.inputs.rows import Matrix, Rows, select
from lcml.inputs.table import Table

CONNECT_SECONDS = 20.0

MOST_LOCAL = 1024
"""Processes of one machine."""

FEATURES_SHARE = 0.5
"""Of the memory of a worker: at 0.8 of it dask gives a worker no more work."""


class ClusterEngine:
    """The workers of a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._made: list[Shards[Any]] = []

    def memory_budget(self) -> int:
        """Bytes that features may take, on all workers together."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return int(FEATURES_SHARE * sum(about["memory_limit"] for about in workers))

    def spread(
        self, make: Callable[..., Holder], rows: Matrix, *by_row: NDArray[Any], multiple: int = 1, **options: Any
    ) -> Spread[Holder]:
        """As `lcml.backend.spread.Place`, one holder per worker."""
        n_rows, n_units = len(rows), -(-len(rows) // multiple)
        cuts = np.unique(even_cuts(n_units, len(working(self._client))))
        starts = np.minimum(cuts * multiple, n_rows).tolist()
        recipes = []
        for first, stop in pairwise(starts):
            part, pieces = _part(rows, first, stop)
            recipes.append(Recipe(make, part, [array[first:stop] for array in by_row], options, pieces))
        self._made.append(Shards(self._client, recipes, starts))
        return self._made[-1]

    def read(self, path: Path, target: str | None) -> RawSet | None:
        """The set in a directory of Parquet parts, which the workers read; None where it is none."""
        parts = part_paths(path)
        return parquet_parts(self._client, path, parts, target) if parts else None

    def collection(self, x: Any) -> Matrix:
        """The rows of a Dask data frame, or array (n, d)."""
        if hasattr(x, "chunks") and x.ndim != 2:
            raise DataError(f"X: expected a dask array (n, d), found shape {x.shape}")
        whole = x.rechunk({1: -1}) if hasattr(x, "chunks") else x
        blocks = np.ravel(whole.to_delayed()).tolist()
        return Pieces(self._client, self._client.compute(blocks), "X").features()

    def close(self) -> None:
        """Have the workers forget all holders."""
        for shards in self._made:
            shards.close()


@contextmanager
def connected(address: str) -> Iterator[ClusterEngine]:
    """The cluster whose scheduler is at tcp://HOST:PORT or, local:N, that of so many processes on this machine.

    Raises SettingsError for what is neither, ClusterError where no scheduler, or no worker, answers.
    """
    kind, _, rest = address.partition(":")
    with ExitStack() as stack:
        if kind == "local" and rest.isdecimal() and 0 < int(rest) <= MOST_LOCAL:
            local = LocalCluster(
                int(rest),
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                host="127.0.0.1",
                silence_logs=logging.ERROR,
            )
            client = stack.enter_context(Client(stack.enter_context(local)))
        elif "://" in address:
            try:
                client = stack.enter_context(Client(address, timeout=CONNECT_SECONDS))
            except (OSError, ValueError) as error:
                raise ClusterError(f"no scheduler answers at {address} ({error}): start one there") from error
        else:
            raise SettingsError(
                f"cluster: expected tcp://HOST:PORT, or local:N for 1 to {MOST_LOCAL} processes, found {address!r}"
            )
        yield stack.enter_context(_engine(client))


def current() -> AbstractContextManager[ClusterEngine]:
    """The cluster of the client that this process has made last. Raises ClusterError where it has none."""
    try:
        client = Client.current()
    except ValueError:
        raise ClusterError("dask collections are learned from by a cluster: make a distributed.Client first") from None
    return _engine(client)


def computed(values: Any) -> Any:
    """What a collection is, in this process."""
    return dask.compute(values)[0]


def _engine(client: Client) -> AbstractContextManager[ClusterEngine]:
    """The workers of a client, which forget everything at the end."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise ClusterError(f"the cluster at {client.scheduler.address} has no worker; start some") from None
    return closing(ClusterEngine(client))


def _part(rows: Matrix, first: int, stop: int) -> tuple[Matrix, dict[int, Any]]:
    """Rows as they are sent to their holder, and the pieces of a collection that they are read from."""
    if not isinstance(rows, EncodedRows):
        return rows[first:stop], {}
    part = replace(rows, rows=select(rows.rows, np.arange(first, stop)))
    raw = part.rows.values if isinstance(part.rows, Table) else part.rows
    if isinstance(raw, Rows) and isinstance(raw.matrix, Pieces):
        return part, raw.matrix.of(raw.index)
    return part[:], {}
