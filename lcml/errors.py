"""The one exception tree of lcml.

    LcmlError
    |-- SettingsError           an option or key is unknown, out of range, or contradicts another
    |-- DataError               a data set or an array that cannot be learned from or predicted
    |-- CircuitError            a vtree, circuit or split that breaks a structural property
    |-- FormatError             a file that is damaged, foreign, truncated or too new
    |-- ContradictionError      an example to which the circuit gives probability 0
    |-- MissingDependencyError  an optional package that is not installed
    |-- OutputError             a file or directory that cannot be written
    |-- ClusterError            a cluster that does not answer, or has lost its workers
    `-- TrackingError           a tracking store that cannot be opened

Every message names the culprit, what was expected, what was found, and what to do about it.
"""

import re
from pathlib import Path

_LONGEST_MESSAGE, _LONGEST_WORD = 2000, 300
"""Characters up to which a message, and a word in it, stand as they are; longer ones lose their middle."""


def shortened(message: str) -> str:
    """A message as one line that quotes nothing at length: what cannot be printed is escaped, and long words, like the
    whole, keep their beginning and end."""
    message = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    message = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: _without_middle(word[0], _LONGEST_WORD), message)
    return _without_middle(message, _LONGEST_MESSAGE)


def shown(value: object) -> str:
    """A value as a message quotes it, one too long or too deep to print by its type."""
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return f"a value of type {type(value).__name__}, too long to show"


def _without_middle(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length // 3]}[...]{text[-length // 6 :]}"


class LcmlError(Exception):
    """Base of every error lcml raises on purpose; the command line prints it and exits with 2."""

    def __str__(self) -> str:
        return shortened(super().__str__())


class SettingsError(LcmlError, ValueError):
    """An option or key is unknown, out of range, or contradicts another."""


class DataError(LcmlError, ValueError):
    """A data set or an array that cannot be learned from or predicted."""


class CircuitError(LcmlError, ValueError):
    """A vtree, circuit or split that breaks a structural property."""


class FormatError(LcmlError, ValueError):
    """A file that is damaged, foreign, truncated or too new; `line` counts from 1 where the file is text."""

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        self.path, self.line = path, line
        place = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)


class ContradictionError(LcmlError, ValueError):
    """An example to which the circuit gives probability 0: its flows are not defined."""


class MissingDependencyError(LcmlError, ImportError):
    """An optional package that is not installed; the message says which extra brings it, if any."""

    def __init__(self, package: str, extra: str | None, purpose: str) -> None:
        what = f"'lcml[{extra}]' (in a clone: '.[{extra}]')" if extra else package
        super().__init__(f"{purpose} needs the package {package}: pip install {what}")


class OutputError(LcmlError, OSError):
    """A file or directory that cannot be written."""


class ClusterError(LcmlError, RuntimeError):
    """A cluster that does not answer, or has lost its workers."""


class TrackingError(LcmlError, RuntimeError):
    """A tracking store that cannot be opened or a run that cannot be found."""
