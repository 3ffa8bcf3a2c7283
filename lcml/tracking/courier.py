"""A sender in a process of its own: what takes seconds to import there takes none from the training.

    parent                             child
    URI                            ->  imports MLflow
    NAME of a method, arguments    ->  calls it of a Sender
                                   <-  what it returns, the failure (None: there was none), run_id, experiment

pickled, over a pipe. The child heeds no signal but SIGKILL. It ends when the other end of the pipe does: with the
parent, however that ends, and with what the parent has forked meanwhile.
"""

import contextlib
import os
import signal
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from lcml.errors import LcmlError, TrackingError
from lcml.tracking.records import Event
from lcml.tracking.sending import Sender
from lcml.tracking.store import brief, import_mlflow, require_mlflow


class Courier:
    """A `Sender` elsewhere: starts the process, and asks it. One thread asks; `close` may come from another.

    Raises MissingDependencyError where MLflow is not installed, TrackingError where the process cannot be started.
    """

    def __init__(self, uri: str) -> None:
        require_mlflow()
        self.run_id: str | None = None
        self.experiment: str | None = None
        self._pipe, there = Pipe()
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        with there:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", f"from lcml.tracking.courier import serve; serve({there.fileno()})"],
                    env={**os.environ, "PYTHONPATH": paths},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[there.fileno()],
                    start_new_session=True,  # Ctrl-C is for the training alone
                )
            except OSError as error:
                raise TrackingError(
                    f"cannot start {sys.executable!r} to record the run ({error.strerror}); --no-tracking does without"
                ) from error
        self._pipe.send(uri)

    def open(self) -> None:
        """Wait until it can send; TrackingError where it cannot."""
        self._ask("open")

    def send(self, parcel: list[Event]) -> None:
        self._ask("send", parcel)

    def care(self, spools: Path) -> bool:
        return bool(self._ask("care", spools))

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()

    def _ask(self, method: str, *arguments: object) -> Any:
        try:
            self._pipe.send((method, arguments))
            result, failure, self.run_id, self.experiment = self._pipe.recv()
        except (OSError, EOFError) as error:
            raise TrackingError(f"the process that records has ended, exit code {self._process.wait()}") from error
        if failure is not None:
            raise TrackingError(failure)
        return result


AnySender = Sender | Courier


def sender_for(uri: str) -> AnySender:
    """What sends a run's events to `uri`: this process, where it has imported MLflow already, else one of its own.

    Raises as Courier.
    """
    if "mlflow" not in sys.modules and sys.executable:
        return Courier(uri)
    import_mlflow(uri)
    return Sender(uri, live=True)


def serve(descriptor: int) -> None:
    """The child: answer until the pipe ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pipe = Connection(descriptor)
    uri, asked = pipe.recv(), SimpleQueue[tuple[str, tuple[object, ...]]]()

    def listen() -> None:
        try:
            while True:
                asked.put(pipe.recv())
        finally:
            os._exit(0)  # in the middle of whatever it does, as the parent was

    Thread(target=listen, daemon=True).start()
    with contextlib.suppress(Exception):  # said when it is asked for something
        import_mlflow(uri)
    sender = Sender(uri, live=True)
    while True:
        method, arguments = asked.get()
        result = failure = None
        try:
            import_mlflow(uri)
            result = getattr(sender, method)(*arguments)
        except LcmlError as error:
            failure = str(error)
        except Exception as error:
            failure = brief(error, uri)
        pipe.send((result, failure, sender.run_id, sender.experiment))
