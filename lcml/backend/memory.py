"""Memory for large arrays that are kept for long: pages of their own, which the system has back once they are freed.

The C library's allocator keeps much of what is freed, in an arena of every thread and in pieces between what is still
in use: features of an earlier fit would stay in memory, of no use to anyone, beside those of the next.
"""

import mmap
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEAST_BYTES = 1 << 20
"""Smaller arrays are not worth a mapping, of which a process may have some ten thousands."""


def own_pages(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros; pages that are never written to take no memory. Raises MemoryError where there are not enough."""
    n_bytes = prod(shape) * np.dtype(dtype).itemsize
    if n_bytes < _LEAST_BYTES:
        return np.zeros(shape, dtype)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    try:
        pages = mmap.mmap(-1, n_bytes, **private)
    except OSError as error:
        raise MemoryError(f"unable to allocate {n_bytes:,} bytes: {error}") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # of a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)
