"""How kernels are compiled by numba."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

_cache_paths: set[str] = set()  # where numba keeps what it has compiled


def compiled(*, fastmath: bool | set[str] = False) -> Callable[[Callable[..., Any]], Any]:
    """numba.njit that leaves the interpreter's lock alone; what is compiled is kept for the next process, if possible.

    fastmath: sums in any order, and no NaN or infinity among the numbers; or LLVM's flags that are to hold.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            kernel = njit(nogil=True, fastmath=fastmath, cache=True)(function)
            _cache_paths.add(str(kernel.stats.cache_path))
        except RuntimeError:  # no directory that numba may write to
            kernel = njit(nogil=True, fastmath=fastmath)(function)
        return kernel

    return decorate


def compiling_notice() -> str | None:
    """What to tell who waits for kernels to be compiled, in a line; None where an earlier process has done it."""
    if not _cache_paths:
        return (
            "numba may write nowhere, so that kernels are compiled anew in every process (about 20 s); name a directory"
            " for them in NUMBA_CACHE_DIR"
        )
    compiled_before = any(next(Path(path).glob("*.nbi"), None) for path in _cache_paths)
    return None if compiled_before else "compiling kernels, once (about 20 s)"
