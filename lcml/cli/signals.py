"""Ctrl-C and SIGTERM ask a command to finish what it is doing; a second Ctrl-C does not ask."""

import contextlib
import os
import signal
from types import FrameType, TracebackType
from typing import Any, Self

from lcml.cli.streams import has_room

_STDERR = 2
_NOTICE = "Stopping after the step at hand, then saving the best model so far (Ctrl-C again: stop at once)."


class StopSignals:
    """While this context is open, SIGINT and SIGTERM set a flag; a second SIGINT raises KeyboardInterrupt.

    For the main thread. notice: what stderr is told at the first signal.
    """

    def __init__(self, notice: str = _NOTICE) -> None:
        self._notice = f"\n{notice}\n".encode()
        self._received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def requested(self) -> bool:
        return self._received is not None

    @property
    def exit_code(self) -> int:
        """What shells expect of a program that a signal ended: 128 + its number; 0 where none came."""
        return 0 if self._received is None else 128 + self._received

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._received is None:
            self._received = number
            if has_room(_STDERR):
                with contextlib.suppress(OSError):  # nobody may read it
                    os.write(_STDERR, self._notice)  # print may be what was interrupted, and cannot be entered twice
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
