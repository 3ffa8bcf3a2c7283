"""Pages of their own, measured as the system counts them."""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lcml.backend.memory import own_pages

_MB = 1 << 20


def used_mb() -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


@pytest.mark.parametrize("shape", [(0, 7), (3, 5), (3000, 500)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_they_are_zeros_that_can_be_written_to(shape: tuple[int, int], dtype: type) -> None:
    array, other = own_pages(shape, dtype), own_pages(shape, dtype)
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.flags.c_contiguous
    assert not array.any()
    array[...] = 3
    assert array.sum(dtype=np.int64) == 3 * array.size
    assert not other.any()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_system_has_them_back_whatever_thread_had_them() -> None:
    def write(_: int, n_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        array = own_pages((n_bytes,), np.uint8)
        array[: n_bytes // 2] = 1
        return array

    before = used_mb()
    for _ in range(3):
        with ThreadPoolExecutor(2) as pool:
            arrays = list(pool.map(partial(write, n_bytes=8 * _MB), range(20)))
        assert 80 < used_mb() - before < 150  # of 160 half was written to, and in large pages a little more
        del arrays
    assert used_mb() - before < 10


def test_more_than_there_is_is_an_error_that_says_how_much() -> None:
    with pytest.raises(MemoryError, match=r"unable to allocate 281,474,976,710,656 bytes"):
        own_pages((1 << 24, 1 << 24), np.uint8)
