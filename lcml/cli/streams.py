"""The standard streams, so that what cannot be shown ends no command."""

import select
import sys
from typing import Any

_PATIENCE_SECONDS = 1.0  # how long a reader may take to make room; then nothing waits for it until it reads again
_PIECE = 400  # characters written at a time: a pipe that has any room takes 4096 bytes, and a character may become ten


class Lenient:
    """stderr that is silent while nobody reads it, or no more: progress and notices stop no training."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._is_open, self._patience = stream, True, _PATIENCE_SECONDS

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # how libraries find out what can be written
            raise TypeError("expected text")
        for first in range(0, len(text), _PIECE):
            if self._is_open and self._has_room():
                self._attempt(text[first : first + _PIECE])
        return len(text)

    def flush(self) -> None:
        """Nothing waits here."""

    def _has_room(self) -> bool:
        room = has_room(self._stream, self._patience)
        self._patience = _PATIENCE_SECONDS if room else 0.0
        return room

    def _attempt(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._is_open = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def has_room(stream: Any, seconds: float = 0.0) -> bool:
    """Whether a stream or descriptor takes a little within that time; one that does not tell takes it."""
    try:
        return bool(select.select((), (stream,), (), seconds)[1])
    except (OSError, ValueError):  # none of the system's, or one of Windows
        return True


def settle() -> None:
    """Show characters that the terminal's encoding lacks as escapes, and go on where stderr is not read."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.stderr = Lenient(sys.stderr)
