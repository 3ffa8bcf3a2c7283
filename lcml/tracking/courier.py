"""A sender in a process of its own: what takes seconds to import there takes none from the training.

    parent                             child, of `python -m lcml.tracking.courier FD`
    URI                            ->  imports MLflow
    NAME of a method, arguments    ->  calls it of a Sender
                                   <-  what it returns, the failure (None: there was none), run_id, experiment

pickled, over a pipe that these two alone have. The child ends as soon as the parent does, however that ends.
"""

import contextlib
import os
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from lcml.errors import LcmlError, MissingDependencyError, TrackingError
from lcml.tracking.records import Event
from lcml.tracking.sending import Sender
from lcml.tracking.store import brief, import_mlflow, require_mlflow


class Courier:
    """A `Sender` elsewhere: starts the process, and asks it. One thread asks; `close` may come from another."""

    def __init__(self, uri: str) -> None:
        require_mlflow()
        self.run_id: str | None = None
        self.experiment: str | None = None
        self._pipe, there = Pipe()
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lcml.tracking.courier", str(there.fileno())],
                env={**os.environ, "PYTHONPATH": paths},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                start_new_session=True,  # Ctrl-C is for the training alone
            )
        self._pipe.send(uri)

    def send(self, parcel: list[Event]) -> None:
        self._ask("send", parcel)

    def care(self, spools: Path) -> bool:
        return bool(self._ask("care", spools))

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()

    def _ask(self, method: str, argument: object) -> Any:
        try:
            self._pipe.send((method, argument))
            result, failure, self.run_id, self.experiment = self._pipe.recv()
        except (OSError, EOFError) as error:
            raise TrackingError("the process that records has ended") from error
        if failure is not None:
            raise TrackingError(failure)
        return result


AnySender = Sender | Courier


def sender_for(uri: str) -> AnySender:
    """What sends a run's events to `uri`: this process, where it has imported MLflow already, else one of its own.

    MissingDependencyError where MLflow is not installed.
    """
    if "mlflow" not in sys.modules:
        return Courier(uri)
    import_mlflow(uri)
    return Sender(uri, live=True)


def serve(pipe: Connection) -> None:
    """The child: answer until the parent is no more."""
    uri, asked = pipe.recv(), SimpleQueue[tuple[str, object]]()

    def listen() -> None:
        try:
            while True:
                asked.put(pipe.recv())
        except (OSError, EOFError):
            os._exit(0)  # in the middle of whatever it does, as the parent was

    Thread(target=listen, daemon=True).start()
    sender = Sender(uri, live=True)
    with contextlib.suppress(MissingDependencyError):  # said when the first parcel comes
        import_mlflow(uri)
    while True:
        method, argument = asked.get()
        result = failure = None
        try:
            import_mlflow(uri)
            result = getattr(sender, method)(argument)
        except LcmlError as error:
            failure = str(error)
        except Exception as error:
            failure = brief(error, uri)
        pipe.send((result, failure, sender.run_id, sender.experiment))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
