"""Holders of rows in the processes of Dask's workers.

Every worker keeps, by their keys, the holders that it has made; this process keeps what they are made of, and all that
they were told. A question goes to the worker that has the holder and to no other. Where that worker has gone, another
one is sent what it takes to make the holder, tells it everything once more, and answers.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, TypeVar
from uuid import uuid4

import cloudpickle
import dask
from distributed import Client, Future, get_worker, wait
from distributed.scheduler import KilledWorker
from numpy.typing import NDArray

from lcml.backend.spread import Holder, Spread
from lcml.backend.threads import at_most
from lcml.data.cluster.pieces import given
from lcml.errors import ClusterError
from lcml.inputs.rows import Matrix

_Out = TypeVar("_Out")

LOOK_SECONDS = 1.0
"""So long this process waits for an answer before it looks whether the workers are still there."""

WAIT_SECONDS = 40.0
"""So long it waits for a worker where none is left."""

MOST_MOVES = 3
"""A holder that so many workers have died with is what they die of."""

_NOTHING = -1  # what a holder that is not made yet was told


@dataclass(frozen=True, eq=False)
class Recipe:
    """What a holder is made of: make(rows[:], *by_row, **options). pieces: those that rows of a collection are in."""

    make: Callable[..., Any]
    rows: Matrix
    by_row: Sequence[NDArray[Any]]
    options: dict[str, Any]
    pieces: Mapping[int, Future]

    def made(self, pieces: Mapping[int, Any]) -> Any:
        with given(pieces):
            return self.make(self.rows[:], *self.by_row, **self.options)


@dataclass(eq=False)
class _Held:
    """A holder in a worker, and how much it was told."""

    holder: Any
    n_told: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_held: dict[str, _Held] = {}
_making = threading.Lock()


def _answer(
    key: str, first: int, told: Sequence[bytes], question: bytes, recipe: bytes | None, pieces: Mapping[int, Any]
) -> tuple[bool, Any]:
    """In a worker: tell the holder what is new of `told`, whose first is number `first`, then ask it; whether it is
    known here, and the answer."""
    with at_most(get_worker().state.nthreads):
        with _making:
            if recipe is not None and key not in _held:
                _held[key] = _Held(cloudpickle.loads(recipe).made(pieces))
            held = _held.get(key)
        if held is None or held.n_told < first:
            return False, None
        with held.lock:
            for change in told[held.n_told - first :]:
                function, args = cloudpickle.loads(change)
                function(held.holder, *args)
                held.n_told += 1
        function, args = cloudpickle.loads(question)
        return True, function(held.holder, *args)


def _forget(keys: Sequence[str]) -> None:
    """In a worker: drop these holders."""
    for key in keys:
        _held.pop(key, None)


@dataclass(frozen=True, eq=False)
class _Sent:
    """A question on its way to a worker, and how much the holder will have been told then."""

    future: Future
    at: str
    n_told: int


class Shards(Spread[Holder]):
    """A holder for every recipe, on as many workers as there are."""

    def __init__(self, client: Client, recipes: Sequence[Recipe], starts: Sequence[int]) -> None:
        self.starts, self._client, self._recipes = starts, client, recipes
        self._keys = [f"lcml-{uuid4().hex}" for _ in recipes]
        self._told: list[list[bytes]] = [[] for _ in recipes]
        self._n_known, self._n_moves = [_NOTHING] * len(recipes), [0] * len(recipes)
        self._lock = threading.Lock()
        workers = sorted(working(client))
        self._at = [workers[shard % len(workers)] for shard in range(len(recipes))]

    def tell_each(self, function: Callable[..., object], args: Sequence[tuple[Any, ...]]) -> None:
        for told, message in zip(self._told, _messages(function, args), strict=True):
            told.append(message)  # goes out with the next question

    def ask_each(self, function: Callable[..., _Out], args: Sequence[tuple[Any, ...]]) -> list[_Out]:
        try:
            return self._answers(_messages(function, args))
        except (OSError, CancelledError) as error:
            raise ClusterError(
                f"the cluster at {self._client.scheduler.address} has gone ({type(error).__name__}); start it again, "
                "then resume the run, or fit again"
            ) from error

    def close(self) -> None:
        """Have the workers forget the holders."""
        self._client.run(_forget, self._keys, on_error="ignore")

    def _answers(self, questions: Sequence[bytes]) -> list[Any]:
        pending = {shard: self._sent(shard, question) for shard, question in enumerate(questions)}
        answers: dict[int, Any] = {}
        while pending:
            here: set[str] | None = None
            try:
                wait([sent.future for sent in pending.values()], timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
            except TimeoutError:
                here = working(self._client)
            for shard, sent in list(pending.items()):
                is_lost = here is not None and sent.at not in here
                if not (sent.future.done() or is_lost):
                    continue
                try:
                    is_known, answer = (False, None) if is_lost else sent.future.result(LOOK_SECONDS)
                except TimeoutError:  # its worker has gone with the answer, as the next look will show
                    continue
                except KilledWorker:
                    is_known, is_lost = False, True
                with self._lock:
                    if is_known:
                        answers[shard] = answer
                        if sent.at == self._at[shard]:
                            self._n_known[shard] = max(self._n_known[shard], sent.n_told)
                        del pending[shard]
                        continue
                    if sent.at == self._at[shard]:  # else somebody else has found it out
                        self._n_known[shard] = _NOTHING
                        if is_lost:
                            self._move(shard)
                sent.future.release()
                pending[shard] = self._sent(shard, questions[shard])
        return [answers[shard] for shard in range(len(questions))]

    def _sent(self, shard: int, question: bytes) -> "_Sent":
        """The question on its way to the worker of that holder, with what the holder is made of where it is new."""
        with self._lock:
            at, n_known, n_told = self._at[shard], self._n_known[shard], len(self._told[shard])
        recipe, first = self._recipes[shard], max(0, n_known)
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}):  # it is data, and meant so
            future = self._client.submit(
                _answer,
                self._keys[shard],
                first,
                self._told[shard][first:n_told],
                question,
                cloudpickle.dumps(replace(recipe, pieces={})) if n_known == _NOTHING else None,
                dict(recipe.pieces) if n_known == _NOTHING else {},
                workers=[at],
                pure=False,
            )
        return _Sent(future, at, n_told)

    def _move(self, shard: int) -> None:
        """Give a holder whose worker has gone to the one that has fewest. Raises ClusterError where none is left,
        or too many have gone with it."""
        self._n_moves[shard] += 1
        if self._n_moves[shard] > MOST_MOVES:
            raise ClusterError(
                f"{self._n_moves[shard]} workers have died one after the other with the same rows, most likely of too "
                "little memory: give them more, or lower memory_budget"
            )
        end = monotonic() + WAIT_SECONDS
        while not (here := working(self._client)):
            if monotonic() > end:
                raise ClusterError(
                    f"no worker is left at {self._client.scheduler.address}; start some, then resume the run, or fit "
                    "again"
                )
            with suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=LOOK_SECONDS)
        self._at[shard] = min(sorted(here), key=self._at.count)


def working(client: Client) -> set[str]:
    """The addresses of the workers that take work."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return {address for address, about in workers.items() if about["status"] == "running"}


def _messages(function: Callable[..., object], args: Sequence[tuple[Any, ...]]) -> list[bytes]:
    """What is sent to every holder; equal arguments once for all."""
    if all(own is args[0] for own in args):
        return [cloudpickle.dumps((function, args[0]))] * len(args)
    return [cloudpickle.dumps((function, own)) for own in args]
