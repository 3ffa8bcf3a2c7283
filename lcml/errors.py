"""The one exception tree of lcml.

    LcmlError
    |-- SettingsError           an option or key is unknown, out of range, or contradicts another
    |-- DataError               a data set or an array that cannot be learned from or predicted
    |-- CircuitError            a vtree, circuit or split that breaks a structural property
    |-- FormatError             a file that is damaged, foreign, truncated or too new
    |-- ContradictionError      an example to which the circuit gives probability 0
    |-- MissingDependencyError  an optional package that is not installed
    |-- OutputError             a file or directory that cannot be written
    `-- TrackingError           a tracking store that cannot be opened

Every message names the culprit, what was expected, what was found, and what to do about it.
"""

from pathlib import Path


class LcmlError(Exception):
    """Base of every error lcml raises on purpose; the command line prints it and exits with 2."""


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
    """An optional package that is not installed; the message says which extra brings it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}: pip install 'lcml[{extra}]' (in a clone: '.[{extra}]')"
        )


class OutputError(LcmlError, OSError):
    """A file or directory that cannot be written."""


class TrackingError(LcmlError, RuntimeError):
    """A tracking store that cannot be opened or a run that cannot be found."""
