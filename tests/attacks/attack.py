"""Run a command in this process, and say what is wrong with how it took a bad file."""

import logging
import os
import resource
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from tests import forked
from tests.cli.commands import run

FULL = os.environ.get("LCML_ATTACKS") == "full"
"""Whether attacks come in full numbers: LCML_ATTACKS=full pytest tests/attacks."""

MOST_SECONDS, MOST_BYTES, HANGS_SECONDS = 3.0, 160 * 10**6, 120.0
"""What a command may take to refuse something: seconds of the processor, beside the two that its start takes; memory,
beside the 400 MB of what all it imports. After HANGS_SECONDS it is ended."""

ERRORS = "Error: ", "lcml_serving: "
WENT_ON = "cannot listen", "no data set and no file 'nowhere.csv'", "no connection"
"""How a command ends that has read what it was given and can go no further."""
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
        found = judged(result.exit_code, result.stdout, result.stderr, new, may_go_on=may_succeed)
    remove(new)
    return found


def faults_apart(arguments: Sequence[str]) -> list[str]:
    """`faults` in a process of its own, which has imported all and done nothing: its time and memory count too."""
    forking = forked.context()
    receiver, sender = forking.Pipe(duplex=False)
    process = forking.Process(target=_attempt, args=(sender, os.getcwd(), list(arguments)), daemon=True)
    process.start()
    sender.close()
    try:
        found, seconds, n_bytes = (
            receiver.recv() if receiver.poll(HANGS_SECONDS) else ([f"hung for {HANGS_SECONDS} s"], 0, 0)
        )
    except EOFError:
        process.join()
        found, seconds, n_bytes = [f"died of {process.exitcode}"], 0, 0
    process.kill()
    process.join()
    if seconds > MOST_SECONDS:
        found.append(f"took {seconds:.1f} s")
    if n_bytes > MOST_BYTES:
        found.append(f"took {n_bytes / 10**6:.0f} MB")
    return list(found)


def _attempt(sender: Connection, directory: str, arguments: list[str]) -> None:
    """Send what is wrong, the seconds of the processor, and the memory that this process took."""
    os.chdir(directory)
    started, held = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = faults(arguments)
    used = resource.getrusage(resource.RUSAGE_SELF)
    sender.send((found, time.process_time() - started, 1024 * (used.ru_maxrss - held)))


def judged(exit_code: int, stdout: str, stderr: str, left: Sequence[Path], *, may_go_on: bool) -> list[str]:
    """What is wrong with the end of a command that was given something bad, which it may take or not."""
    said = [line for line in stderr.splitlines() if not line.startswith(NOTES)]
    return [
        *([f"exit code {exit_code}"] if exit_code != 2 else []),
        *([f"printed {stdout[:80]!r}"] if stdout else []),
        *([f"said {said!r:.2000}"] if len(said) != 1 or not said[0].startswith(ERRORS) else []),
        *([f"left {left}"] if left else []),
        *([f"took it: {said[0]}"] if said and not may_go_on and any(end in said[0] for end in WENT_ON) else []),
    ]


def snapshot() -> set[Path]:
    """All files and folders in the directory at hand."""
    return set(Path().rglob("*"))


def remove(paths: Sequence[Path]) -> None:
    """Delete files and folders, sorted by name."""
    for path in reversed(paths):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
