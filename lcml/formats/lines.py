"""Reading text files that may be anything: line by line, in bounded memory, every error with its line number."""

import codecs
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from lcml.errors import FormatError
from lcml.files import open_regular

MAX_LINE_BYTES = 1 << 23
"""Longer lines are refused: an or gate of 38,000 elements with weights for ten classes fits."""

_MAX_DIGITS = 18  # every such number fits in 64 bits
_EXCERPT = 24


class TextFile:
    """A text file of lines of tokens. `line` is the number of the line being read, from 1."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.line = path, 0
        self.ends_whole = True
        """Whether the last line read ended in a line end."""

    def lines(self) -> Iterator[bytes]:
        """The lines that are neither blank nor comments (their first letter is c). Raises FormatError."""
        try:
            with open_regular(self.path) as file:
                while line := file.readline(MAX_LINE_BYTES + 1):
                    self.line += 1
                    line = line.removeprefix(codecs.BOM_UTF8) if self.line == 1 else line
                    if len(line) > MAX_LINE_BYTES:
                        self.fail(f"the line is longer than {MAX_LINE_BYTES} bytes; is this the right file?")
                    self.ends_whole = line.endswith(b"\n")
                    if not line.isspace() and not line.startswith(b"c"):
                        yield line
        except OSError as error:
            raise FormatError(f"cannot be read: {error.strerror or error}", self.path) from error

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Raise a FormatError at `line`, by default the line being read (the first, in an empty file)."""
        raise FormatError(message, self.path, line or self.line or 1)

    def integers(self, tokens: Sequence[bytes], names: str) -> list[int]:
        """One non-negative integer per token; `names` says what is expected, for messages."""
        if len(tokens) != len(names.split(", ")):
            self.fail(f"expected {names}, found {len(tokens)} value(s)")
        for token in tokens:
            if not token.isdigit() or len(token) > _MAX_DIGITS:
                self.fail(f"expected {names} as integers of at most {_MAX_DIGITS} digits, found {excerpt(token)}")
        return [int(token) for token in tokens]

    def numbers(self, tokens: Sequence[bytes]) -> list[float]:
        """One finite number per token."""
        try:
            numbers = list(map(float, tokens))
        except ValueError:
            numbers = []
        if not all(map(math.isfinite, numbers)) or len(numbers) != len(tokens) or b"_" in b"".join(tokens):
            culprit = next(token for token in tokens if not _is_finite_number(token))
            self.fail(f"expected a finite number that fits 64 bits, found {excerpt(culprit)}")
        return numbers


def excerpt(text: bytes) -> str:
    """The beginning of `text`, fit for a message."""
    text = text.strip()
    if not text:
        return "nothing"
    return ascii(text[:_EXCERPT].decode("latin-1")) + ("..." if len(text) > _EXCERPT else "")


def _is_finite_number(token: bytes) -> bool:
    try:
        return math.isfinite(float(token)) and b"_" not in token
    except ValueError:
        return False
