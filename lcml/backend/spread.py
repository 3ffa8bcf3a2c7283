"""Rows that stay where they are: holders of them, in this process or in others, which are asked for sums over theirs.

A holder is an object made of some rows; what is asked of it is a function of the holder and of arguments, all of which
can be sent. What must change a holder is told, and remembered: a holder that is lost is made again of the same rows,
and told all of it once more.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from numpy.typing import NDArray

from lcml.inputs.rows import Matrix

Holder = TypeVar("Holder")
Out = TypeVar("Out")
P = ParamSpec("P")


class Spread(ABC, Generic[Holder]):
    """Holders of consecutive rows, in the order of these. starts (n_holders + 1,): holder i has rows starts[i] to
    starts[i + 1] - 1."""

    starts: Sequence[int]

    @abstractmethod
    def ask_each(self, function: Callable[..., Out], args: Sequence[tuple[Any, ...]]) -> list[Out]:
        """What the function, which changes no holder, returns of every holder and the arguments for that one."""

    @abstractmethod
    def tell_each(self, function: Callable[..., object], args: Sequence[tuple[Any, ...]]) -> None:
        """Have the function change every holder, before anything else is asked, with arguments for each."""

    def ask(self, function: Callable[Concatenate[Holder, P], Out], /, *args: P.args, **kwargs: P.kwargs) -> list[Out]:
        """As `ask_each`, with the same arguments for all."""
        return self.ask_each(partial(function, **kwargs), [args] * (len(self.starts) - 1))

    def tell(self, function: Callable[Concatenate[Holder, P], object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """As `tell_each`, with the same arguments for all."""
        self.tell_each(partial(function, **kwargs), [args] * (len(self.starts) - 1))


class Place(Protocol):
    """Where rows are held."""

    def spread(
        self, make: Callable[..., Holder], rows: Matrix, *by_row: NDArray[Any], multiple: int = 1, **options: Any
    ) -> Spread[Holder]:
        """Holders make(rows[of], *(array[of] for array in by_row), **options) of consecutive rows `of`, which begin at
        multiples of `multiple`."""


class Engine(Place, Protocol):
    """Other processes that hold rows."""

    def memory_budget(self) -> int:
        """Bytes that features may take there, on all machines together."""


class _Here(Spread[Holder]):
    """One holder of all rows, in this process."""

    def __init__(self, holder: Holder, n_rows: int) -> None:
        self._holder, self.starts = holder, (0, n_rows)

    def ask_each(self, function: Callable[..., Out], args: Sequence[tuple[Any, ...]]) -> list[Out]:
        return [function(self._holder, *args[0])]

    def tell_each(self, function: Callable[..., object], args: Sequence[tuple[Any, ...]]) -> None:
        function(self._holder, *args[0])


class _Process:
    """This process."""

    def spread(
        self, make: Callable[..., Holder], rows: Matrix, *by_row: NDArray[Any], multiple: int = 1, **options: Any
    ) -> Spread[Holder]:
        return _Here(make(rows[:], *by_row, **options), len(rows))


HERE: Place = _Process()


def added(parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Sums, item by item, of what holders returned."""
    return [sum(items[1:], start=items[0]) for items in zip(*parts, strict=True)]
