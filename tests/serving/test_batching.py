"""The batcher with a run whose answer is known: x -> (x + 1, row sums)."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from lcml_serving.batching import Batcher, BatchReport


class Recorder:
    """A run that notes the size of every batch and can be held until released."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.may_run = threading.Event()
        self.may_run.set()
        self.entered = threading.Semaphore(0)

    def __call__(self, features: Any) -> list[Any]:
        self.entered.release()
        assert self.may_run.wait(10)
        self.sizes.append(len(features))
        if (features < 0).any():
            raise ArithmeticError("negative")
        return [features + 1, features.sum(axis=1)]


def _rows(*values: float) -> Any:
    return np.array([[value, 10 * value] for value in values], np.float32).reshape(-1, 2)


def _run(scenario: Any, **options: Any) -> tuple[Recorder, list[BatchReport]]:
    recorder, reports = Recorder(), list[BatchReport]()
    with ThreadPoolExecutor(2) as executor:
        batcher = Batcher(recorder, executor, report=reports.append, **{"max_rows": 8, **options})
        asyncio.run(asyncio.wait_for(scenario(batcher, recorder), 20))
    assert batcher.n_waiting == 0
    return recorder, reports


async def _hold(batcher: Batcher, recorder: Recorder, first: Any) -> asyncio.Task[Any]:
    """Submit `first` and wait until its run is under way, held."""
    recorder.may_run.clear()
    task = asyncio.ensure_future(batcher.submit(first))
    await asyncio.to_thread(recorder.entered.acquire)
    return task


def test_requests_that_wait_together_run_together_and_get_their_own_rows() -> None:
    async def scenario(batcher: Batcher, recorder: Recorder) -> None:
        held = await _hold(batcher, recorder, _rows(0))
        tasks = [asyncio.ensure_future(batcher.submit(_rows(*values))) for values in [(1, 2), (), (3,)]]
        await asyncio.sleep(0)
        assert batcher.n_waiting == 3
        recorder.may_run.set()
        answers = await asyncio.gather(held, *tasks)
        assert [answer[0].tolist() for answer in answers] == [[[1, 1]], [[2, 11], [3, 21]], [], [[4, 31]]]
        assert [answer[1].tolist() for answer in answers] == [[0], [11, 22], [], [33]]

    recorder, reports = _run(scenario)
    assert recorder.sizes == [1, 3]
    assert [(report.n_rows, len(report.wait_seconds)) for report in reports] == [(1, 1), (3, 3)]


def test_a_batch_takes_whole_requests_up_to_its_size_and_a_larger_request_runs_alone() -> None:
    async def scenario(batcher: Batcher, recorder: Recorder) -> None:
        held = await _hold(batcher, recorder, _rows(0))
        tasks = [asyncio.ensure_future(batcher.submit(_rows(*range(n)))) for n in (5, 3, 1, 20, 2)]
        await asyncio.sleep(0)
        recorder.may_run.set()
        await asyncio.gather(held, *tasks)

    assert _run(scenario)[0].sizes == [1, 8, 1, 20, 2]


def test_size_1_turns_batching_off() -> None:
    async def scenario(batcher: Batcher, _: Recorder) -> None:
        await asyncio.gather(*(batcher.submit(_rows(n)) for n in range(5)))

    assert _run(scenario, max_rows=1)[0].sizes == [1] * 5


def test_an_idle_batcher_waits_for_company_no_longer_than_the_delay() -> None:
    async def scenario(batcher: Batcher, recorder: Recorder) -> None:
        first = asyncio.ensure_future(batcher.submit(_rows(1)))
        await asyncio.sleep(0)
        await asyncio.gather(first, batcher.submit(_rows(2)))
        assert recorder.sizes == [2]
        await batcher.submit(_rows(3))

    recorder, reports = _run(scenario, max_delay=0.05)
    assert recorder.sizes == [2, 1]
    assert 0.045 < reports[1].wait_seconds[0] < 5


def test_a_full_batch_does_not_wait() -> None:
    async def scenario(batcher: Batcher, _: Recorder) -> None:
        first = asyncio.ensure_future(batcher.submit(_rows(1)))
        await asyncio.sleep(0)
        await asyncio.gather(first, batcher.submit(_rows(*range(7))))

    assert _run(scenario, max_delay=60.0)[0].sizes == [8]


def test_a_failing_run_fails_its_requests_and_no_others() -> None:
    async def scenario(batcher: Batcher, _: Recorder) -> None:
        with pytest.raises(ArithmeticError, match="negative"):
            await batcher.submit(_rows(-1))
        assert (await batcher.submit(_rows(1)))[1].tolist() == [11]

    _run(scenario)


def test_a_cancelled_request_is_not_run() -> None:
    async def scenario(batcher: Batcher, recorder: Recorder) -> None:
        held = await _hold(batcher, recorder, _rows(0))
        gone = asyncio.ensure_future(batcher.submit(_rows(*range(5))))
        kept = asyncio.ensure_future(batcher.submit(_rows(2)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        recorder.may_run.set()
        await asyncio.gather(held, kept)

    assert _run(scenario)[0].sizes == [1, 1]


def test_two_runs_at_the_same_time_where_allowed() -> None:
    async def scenario(batcher: Batcher, recorder: Recorder) -> None:
        held = await _hold(batcher, recorder, _rows(0))
        second = asyncio.ensure_future(batcher.submit(_rows(1)))
        await asyncio.to_thread(recorder.entered.acquire)  # inside the run while the first is held
        recorder.may_run.set()
        await asyncio.gather(held, second)

    assert _run(scenario, parallel=2)[0].sizes == [1, 1]
