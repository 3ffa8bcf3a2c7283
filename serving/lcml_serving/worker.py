"""Work that would keep the event loop waiting, in processes of their own: Python reads and writes JSON under its one
lock, so a thread would be no help.

`python -m lcml_serving.worker DESCRIPTOR` is such a process. It takes pickled (function, arguments) from the socket
that it inherits, answers with (done, result or exception), and ends when the socket closes.
"""

import asyncio
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from lcml_serving.errors import BusyError

Result = TypeVar("Result")


class _Process:
    """A worker process and the socket to it."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-m", "lcml_serving.worker", str(theirs.fileno())]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self.connection.close()


class Workers:
    """At most `number` processes, started when they are first needed, and again where one has ended."""

    def __init__(self, number: int) -> None:
        self._threads = ThreadPoolExecutor(number, thread_name_prefix="worker")
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()

    async def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """`function(*arguments)`, its exceptions included; raises BusyError where a process ended over it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, function, arguments)

    def close(self) -> None:
        """End the processes; nobody waits for them any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in list(self._all):
            process.end()

    def _call(self, function: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
        process = self._idle.pop() if self._idle else _Process()
        self._all.add(process)
        try:
            process.connection.send((function, arguments))
            done, result = process.connection.recv()
        except (OSError, EOFError):
            self._all.discard(process)
            process.end()
            raise BusyError("the process that read the body was ended, perhaps for its memory; send less") from None
        self._idle.append(process)
        if not done:
            raise result
        return result  # type: ignore[no-any-return]


def main() -> None:
    """Work until the socket closes; signals are the service's to understand."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with Connection(int(sys.argv[1])) as connection:
        try:
            while True:
                connection.send(_answer(*connection.recv()))
        except (EOFError, OSError):
            return


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, function(*arguments)
    except Exception as error:
        error.add_note(traceback.format_exc())  # the traceback itself does not travel
        return False, error


if __name__ == "__main__":
    main()
