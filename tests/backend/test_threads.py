"""What backends share: one instance per name, one pool, and BLAS as it was when the last pass ends."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from threadpoolctl import ThreadpoolController

import lcml.backend
from lcml import LogisticCircuitClassifier
from lcml.backend import NumpyBackend, get_backend, why_slow
from lcml.backend.threads import map_in_order, single_threaded_blas
from lcml.errors import MissingDependencyError, SettingsError

X, Y = load_digits(return_X_y=True)


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads() -> Any:
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        yield


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool of three threads, whatever this machine has."""
    fresh = lcml.backend.threads._Shared()
    fresh.__dict__["_n_threads"] = 3
    monkeypatch.setattr("lcml.backend.threads._shared", fresh)


def together(task: Callable[[int], Any], n: int) -> list[Any]:
    """task(0) ... task(n - 1), begun at the same moment by threads of the test."""
    barrier = threading.Barrier(n)

    def begin(number: int) -> Any:
        barrier.wait()
        return task(number)

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(begin, range(n)))


def test_one_backend_per_name() -> None:
    assert len({id(backend) for backend in together(lambda _: get_backend("numpy"), 8)}) == 1
    assert get_backend("auto") is get_backend(get_backend("auto").name)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="unknown backend 'tpu'"):
        get_backend("tpu")  # type: ignore[arg-type]


def test_a_slow_backend_is_told_of_where_somebody_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise MissingDependencyError("numba", "fast", "the numba backend")

    monkeypatch.setattr("lcml.backend._made", {})
    monkeypatch.setitem(lcml.backend._BACKENDS, "numba", missing)
    monkeypatch.setattr("lcml.backend.cuda_is_available", lambda: False)
    assert type(get_backend("auto")) is NumpyBackend
    assert capsys.readouterr() == ("", "")
    assert str(why_slow("auto")).startswith("using the slower numpy backend: ")
    assert why_slow("numpy") is None


def test_results_come_in_order_from_the_pool(shared: None) -> None:
    barrier = threading.Barrier(3, timeout=20)

    def task(item: int) -> tuple[int, str]:
        barrier.wait()  # passes only where three run at once
        return item, threading.current_thread().name

    items, names = zip(*map_in_order(task, range(6)), strict=True)
    assert items == (0, 1, 2, 3, 4, 5)
    assert len(set(names)) == 3


def test_a_single_item_and_nested_maps_stay_in_their_thread(shared: None) -> None:
    def where(_: int) -> int:
        return threading.get_ident()

    assert list(map_in_order(where, [0])) == [threading.get_ident()]
    for outer, inner in map_in_order(lambda _: (where(0), list(map_in_order(where, range(50)))), range(9)):
        assert set(inner) == {outer} != {threading.get_ident()}


def test_an_error_ends_the_map_and_what_it_began(shared: None, two_blas_threads: None) -> None:
    running: set[int] = set()

    def task(item: int) -> None:
        running.add(item)
        if item == 1:
            raise ValueError("one")
        threading.Event().wait(0.05)
        running.remove(item)

    with pytest.raises(ValueError, match="one"):
        list(map_in_order(task, range(100)))
    assert running == {1}
    assert blas_threads() == {2}


def test_blas_is_limited_until_the_last_has_left(two_blas_threads: None) -> None:
    first, second = single_threaded_blas(), single_threaded_blas()
    with first:
        second.__enter__()
        assert blas_threads() == {1}
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}


def test_a_thread_limits_blas_whoever_limited_it_before(two_blas_threads: None) -> None:
    def within(_: int) -> set[int]:
        with single_threaded_blas():
            return blas_threads()

    def limited_again(_: int) -> set[int]:
        with ThreadpoolController().limit(limits=1, user_api="blas"):
            return blas_threads()

    with single_threaded_blas():  # of this thread
        pass
    assert together(within, 1) == [{1}]
    assert blas_threads() == {2}
    assert together(limited_again, 1) == [{1}]
    left = single_threaded_blas()
    together(lambda _: left.__enter__(), 1)
    left.__exit__(None, None, None)
    assert blas_threads() == {2}


def test_threads_that_fit_and_predict_at_once_get_what_one_gets(two_blas_threads: None) -> None:
    def fit() -> LogisticCircuitClassifier:
        model = LogisticCircuitClassifier(
            rounds=1, backend="numpy", round_iterations=3, final_iterations=3, refit=False
        )
        return model.fit(X[:800, :20], Y[:800] % 3)  # two chunks

    alone = fit()
    tasks: list[Callable[[], Any]] = [lambda: fit().model_.weights, lambda: alone.predict_proba(X[:, :20])] * 2
    expected = [alone.model_.weights, alone.predict_proba(X[:, :20])] * 2
    for found, right in zip(together(lambda number: tasks[number](), len(tasks)), expected, strict=True):
        assert np.array_equal(found, right)
    assert blas_threads() == {2}


def _in_child(send: Any) -> None:
    send.send((list(map_in_order(lambda item: item + 1, range(5))), blas_threads()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_pool_of_its_own(shared: None, two_blas_threads: None) -> None:
    assert list(map_in_order(abs, [-1, -2])) == [1, 2]
    receive, send = get_context("fork").Pipe()
    with single_threaded_blas():
        child = get_context("fork").Process(target=_in_child, args=(send,))
        child.start()
        found = receive.recv() if receive.poll(30) else None
        child.join(30)
    assert found == ([1, 2, 3, 4, 5], {2})


def test_learning_from_and_predicting_one_chunk_starts_no_thread() -> None:
    code = """
import threading
from sklearn.datasets import load_breast_cancer
from lcml import LogisticCircuitClassifier
X, y = (values[:400] for values in load_breast_cancer(return_X_y=True))
LogisticCircuitClassifier(rounds=1, round_iterations=5, final_iterations=5).fit(X, y).predict(X)
print(threading.active_count())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert found.stdout == "1\n"
