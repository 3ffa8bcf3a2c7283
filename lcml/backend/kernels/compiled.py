"""How kernels are compiled by numba."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(*, fastmath: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """numba.njit that leaves the interpreter's lock alone; what is compiled is kept for the next process, if possible.

    fastmath: sums in any order, and no NaN or infinity among the numbers.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, fastmath=fastmath, cache=True)(function)
        except RuntimeError:  # no directory that numba may write to
            return njit(nogil=True, fastmath=fastmath)(function)

    return decorate
