"""The standard streams, so that what cannot be shown ends no command."""

import sys
from typing import Any


class Lenient:
    """stderr that is silent once nobody reads it: progress and notices stop no training."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._is_read = stream, True

    def write(self, text: str) -> int:
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def _attempt(self, action: Any) -> None:
        try:
            if self._is_read:
                action()
        except OSError:
            self._is_read = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def settle() -> None:
    """Show characters that the terminal's encoding lacks as escapes, and go on where stderr is closed."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.stderr = Lenient(sys.stderr)
