"""Dynamic batching: requests that wait at the same time share one onnxruntime run."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Run = Callable[..., Sequence[Array]]
"""The outputs of inputs, arrays of the same number of rows."""
Trace = Callable[[float, float, float, int, int], None]
"""Of a request: when it arrived, its run began and ended (time.perf_counter); its rows, those of the run."""


@dataclass(frozen=True)
class BatchReport:
    """What one run did: examples, seconds in onnxruntime, and seconds that each of its requests had waited."""

    n_rows: int
    run_seconds: float
    wait_seconds: tuple[float, ...]


@dataclass(frozen=True)
class _Item:
    inputs: tuple[Array, ...]
    arrived: float
    future: asyncio.Future[tuple[tuple[Array, ...], float, float, int]]  # outputs; start, end and rows of their run

    @property
    def n_rows(self) -> int:
        return len(self.inputs[0])


class Batcher:
    """Collects the rows of concurrent `submit` calls and runs them together, in the order of arrival.

    A run takes whole requests up to `max_rows` rows; a request above that runs alone. While a run is under way the
    next batch gathers, so batching needs no delay under load; `max_delay` (seconds) makes an idle service wait for
    company too. At most `parallel` runs are under way, each in a thread of `executor`. Where a run raises, every
    request in it gets the exception.
    """

    def __init__(
        self,
        run: Run,
        executor: Executor,
        *,
        max_rows: int,
        max_delay: float = 0.0,
        parallel: int = 1,
        report: Callable[[BatchReport], None] = lambda _: None,
        trace: Trace | None = None,
    ) -> None:
        self._run, self._executor, self._report, self._trace = run, executor, report, trace
        self._max_rows, self._max_delay, self._parallel = max_rows, max_delay, parallel
        self._waiting: deque[_Item] = deque()
        self._n_rows = 0
        self._filled = asyncio.Event()
        self._workers: set[asyncio.Task[None]] = set()

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    async def submit(self, *inputs: Array) -> tuple[Array, ...]:
        """The outputs of `run` for these rows, (n, ...) each, from a run that they may share with others."""
        loop = asyncio.get_running_loop()
        item = _Item(inputs, time.perf_counter(), loop.create_future())
        self._waiting.append(item)
        self._n_rows += item.n_rows
        if self._n_rows >= self._max_rows:
            self._filled.set()
        if len(self._workers) < self._parallel:
            worker = loop.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        outputs, started, ended, n_together = await item.future
        if self._trace is not None:  # here, in the request's own context
            self._trace(item.arrived, started, ended, item.n_rows, n_together)
        return outputs

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._fill()
            items = self._take()
            if not items:
                continue
            started = time.perf_counter()
            try:
                results = await loop.run_in_executor(self._executor, self._run_together, [i.inputs for i in items])
            except Exception as error:
                for item in items:
                    if not item.future.done():
                        item.future.set_exception(error)
                continue
            ended, n_rows = time.perf_counter(), sum(item.n_rows for item in items)
            for item, result in zip(items, results, strict=True):
                if not item.future.done():
                    item.future.set_result((result, started, ended, n_rows))
            self._report(BatchReport(n_rows, ended - started, tuple(started - item.arrived for item in items)))
        # No await between the last look at the queue and this, so no request is left without a worker.
        self._workers.discard(asyncio.current_task())

    async def _fill(self) -> None:
        """Wait until the batch is full or its oldest request has waited `max_delay`."""
        if self._n_rows >= self._max_rows or self._max_delay == 0:
            return
        rest = self._waiting[0].arrived + self._max_delay - time.perf_counter()
        if rest > 0:
            self._filled.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._filled.wait()

    def _take(self) -> list[_Item]:
        items: list[_Item] = []
        n_rows = 0
        while self._waiting and (not items or n_rows + self._waiting[0].n_rows <= self._max_rows):
            item = self._waiting.popleft()
            self._n_rows -= item.n_rows
            if not item.future.done():  # else the client has gone
                items.append(item)
                n_rows += item.n_rows
        return items

    def _run_together(self, parts: list[tuple[Array, ...]]) -> list[tuple[Array, ...]]:
        if len(parts) == 1:
            return [tuple(self._run(*parts[0]))]
        outputs = self._run(*map(np.concatenate, zip(*parts, strict=True)))
        ends = np.cumsum([len(part[0]) for part in parts])
        return [
            tuple(output[end - len(part[0]) : end] for output in outputs) for part, end in zip(parts, ends, strict=True)
        ]
