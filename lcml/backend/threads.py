"""The threads of a process that the CPU backends share: one pool, and matrix products kept to one thread meanwhile."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import islice
from typing import Any

from lcml.backend.base import In, Out
from lcml.backend.machine import cores

_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextmanager
def at_most(n_threads: int | None) -> Iterator[None]:
    """Who is within has the work of `map_in_order` done by so many threads at once, or all where None."""
    before = _most.set(n_threads)
    try:
        yield
    finally:
        _most.reset(before)


def map_in_order(function: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
    """function(item) of every item, in order, on as many threads as there are cores, matrix products on one each.

    A single item, and what a thread of the pool maps, which must not wait for its like, runs in the caller's thread.
    """
    work, most = list(items), _most.get()
    with single_threaded_blas():
        pool = _shared.pool() if len(work) > 1 and most != 1 else None
        if pool is None:
            yield from map(function, work)
            return
        rest = iter(work)
        futures: deque[Future[Out]] = deque(pool.submit(function, item) for item in islice(rest, most))
        try:
            while futures:
                result = futures[0].result()
                futures.popleft()
                futures.extend(pool.submit(function, item) for item in islice(rest, 1))
                yield result
        finally:  # after an error nothing goes on unseen
            for future in futures:
                future.cancel()
            wait(futures)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Matrix products on the host use one thread while anyone is within; the last to leave brings back what was."""
    shared = _shared  # a fork within leaves the child another one
    with shared.lock:
        if not shared.n_within:
            shared.limit_blas()
        shared.n_within += 1
    try:
        yield
    finally:
        with shared.lock:
            shared.n_within -= 1
            if not shared.n_within:
                shared.restore_blas()


class _Shared:
    """What the threads of one process share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_within = 0
        self._pool: ThreadPoolExecutor | None = None
        self._of_thread = threading.local()
        self._libraries: list[Any] = []
        self._n_modules = 0
        self._limited: list[tuple[Any, int]] = []

    def pool(self) -> ThreadPoolExecutor | None:
        """The pool, which the first call makes; None for its own threads, and where there is one core."""
        if getattr(self._of_thread, "is_of_pool", False):
            return None
        with self.lock:
            if self._pool is None and self._n_threads > 1:
                self._pool = ThreadPoolExecutor(self._n_threads, "lcml", setattr, (self._of_thread, "is_of_pool", True))
            return self._pool

    @cached_property
    def _n_threads(self) -> int:
        return cores()

    def limit_blas(self) -> None:
        """One thread for every BLAS library loaded; looks for them, which takes long, where modules came since."""
        if len(sys.modules) != self._n_modules:
            from threadpoolctl import ThreadpoolController

            self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            self._n_modules = len(sys.modules)
        threads = ((library, library.get_num_threads() or 1) for library in self._libraries)
        self._limited = [(library, n) for library, n in threads if n > 1]
        for library, _ in self._limited:
            _set_threads(library, 1)

    def restore_blas(self) -> None:
        for library, n in self._limited:
            _set_threads(library, n)
        self._limited = []


def _set_threads(library: Any, n: int) -> None:
    """Whichever thread asks: since release 3.8 threadpoolctl obeys the first one that set a limit, and no other."""
    free = getattr(library, "clear_controlling_thread", lambda *, force: None)
    free(force=True)
    library.set_num_threads(n)
    free(force=True)  # whoever limits libraries around us must be able to restore them


_shared = _Shared()


def _begin_child() -> None:
    """A forked process has none of the pool's threads, and none that was within `single_threaded_blas` but its own."""
    global _shared
    _shared.restore_blas()
    _shared.lock.release()
    _shared = _Shared()


os.register_at_fork(
    before=lambda: _shared.lock.acquire(), after_in_parent=lambda: _shared.lock.release(), after_in_child=_begin_child
)
