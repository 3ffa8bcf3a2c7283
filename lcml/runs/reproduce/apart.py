"""Fit a baseline in a process of its own: scikit-learn cannot be asked to stop, but a process can be ended."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any

from lcml.data import DataSplits
from lcml.errors import LcmlError
from lcml.learning.solver import never
from lcml.runs.reproduce.baselines import Fitted, fit

_POLL_SECONDS = 0.1


def fit_apart(
    key: str, settings: Mapping[str, Any], splits: DataSplits, seed: int, should_stop: Callable[[], bool] = never
) -> Fitted | None:
    """As `lcml.runs.reproduce.baselines.fit`; None where should_stop() became true before its end.

    The process has ended when this returns or raises. Raises LcmlError where it ended by itself, without a result.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_fit, args=(theirs, key, dict(settings), splits, seed), daemon=True)
    try:
        process.start()
        theirs.close()
        while not ours.poll(_POLL_SECONDS):
            if should_stop():
                return None
        found: Fitted = ours.recv()
        return found
    except EOFError:
        process.join()
        if should_stop():
            return None
        raise LcmlError(
            f"{key}: the process that fitted it ended with exit code {process.exitcode} and without a result; -9 is "
            "often a lack of memory: give it more, or leave the row out (--skip)"
        ) from None
    finally:
        ours.close()
        if process.pid is not None:
            process.kill()
            process.join()


def _fit(connection: Connection, key: str, settings: Mapping[str, Any], splits: DataSplits, seed: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C comes here too, and an MLP takes it for its end
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection.send(fit(key, settings, splits, seed))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
