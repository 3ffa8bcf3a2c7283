"""Run a command in this process, and say what is wrong with how it took a bad file."""

import logging
import os
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.cli.commands import run

FULL = os.environ.get("LCML_ATTACKS") == "full"
"""Whether attacks come in full numbers: LCML_ATTACKS=full pytest tests/attacks."""

ERRORS = "Error: ", "lcml_serving: "
NOTES = "lcml: ", '{"time"'
"""What lines on stderr begin with: the sentence that ends a command, and notes and log lines before it."""


def faults(arguments: Sequence[str], *, may_succeed: bool = False) -> list[str]:
    """What is wrong with how `lcml` ends in the directory at hand: not with exit code 2 and one sentence, or with files
    left; those of a command that succeeds are deleted."""
    root, before = logging.getLogger(), snapshot()
    handlers, level = root.handlers[:], root.level  # a service logs to the stderr of its time
    result = run(*arguments)
    root.handlers[:] = handlers
    root.setLevel(level)
    new = sorted(snapshot() - before)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        found = ["".join(traceback.format_exception(result.exception))]
    elif result.exit_code == 0 and may_succeed:
        found = []
    else:
        found = judged(result.exit_code, result.stdout, result.stderr, new)
    for path in new:
        path.unlink() if not path.is_dir() else None
    for path in reversed(new):
        path.rmdir() if path.is_dir() else None
    return found


def judged(exit_code: int, stdout: str, stderr: str, left: Sequence[Path]) -> list[str]:
    """What is wrong with the end of a command that was given something bad."""
    said = [line for line in stderr.splitlines() if not line.startswith(NOTES)]
    return [
        *([f"exit code {exit_code}"] if exit_code != 2 else []),
        *([f"printed {stdout[:80]!r}"] if stdout else []),
        *([f"said {said!r:.2000}"] if len(said) != 1 or not said[0].startswith(ERRORS) else []),
        *([f"left {left}"] if left else []),
    ]


def snapshot() -> set[Path]:
    """All files and folders in the directory at hand."""
    return set(Path().rglob("*"))
