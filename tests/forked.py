"""Programs in processes of their own, forked from one that has imported what takes seconds to import.

They are as apart as those of subprocess: killed, limited, out of disk, they harm nobody else. Where the start of Python
itself is looked at (what is imported, warnings at import, variables read at import), take subprocess. Figures of
trainings are made and not drawn, as in tests.
"""

import multiprocessing
import os
import resource
import runpy
import signal
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from threading import Thread
from typing import IO, Self

from lcml.runs import plots, quality_plots

IMPORTED = (
    *("tests.cli.commands", "lcml.cli.run_training", "lcml.cli.run_export", "lcml_export", "lcml_serving.server"),
    *("mlflow.tracking.client", "mlflow.store.tracking.sqlalchemy_store", "numba", "pyarrow.csv", "pyarrow.parquet"),
    *("sklearn.datasets", "mlflow.pyfunc", "alembic.command", "matplotlib.figure", "lcml.runs.quality_plots"),
    *("distributed", "dask.array", "dask.dataframe", "lcml.data.cluster.engine"),
)
LINGERS_SECONDS = 120.0


def context() -> ForkServerContext:
    """Of multiprocessing: what it starts is forked from the process that has imported all of IMPORTED."""
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(list(IMPORTED))
    forkserver.ensure_running()
    return forking


def sketch(figure: object) -> bytes:
    """In place of the picture of a figure, which takes longer than a short training."""
    return b"not drawn"


class Forked:
    """`python ARGUMENTS...`, that is `-m MODULE ...` or `-c CODE ...`; the rest is as of subprocess.Popen.

    stdout, stderr: descriptors to write to, else pipes. errors: warnings are errors, as with `-W error`. session: in a
    group of its own. largest_file: bytes, as by RLIMIT_FSIZE. As many files may be open as in this process.
    """

    def __init__(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        errors: bool = False,
        session: bool = False,
        largest_file: int = resource.RLIM_INFINITY,
    ) -> None:
        self.stdout, out_writer = _end(stdout)
        self.stderr, err_writer = _end(stderr)
        most_open = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        limits = {resource.RLIMIT_FSIZE: largest_file, resource.RLIMIT_NOFILE: most_open}
        start = _Start(
            arguments, str(cwd or Path.cwd()), dict(os.environ if env is None else env), errors, session, limits
        )
        self._process = context().Process(target=_run, args=(start, out_writer, err_writer))
        self._process.start()
        out_writer.close()
        err_writer.close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: signal.Signals | int) -> None:
        """As Popen: nothing where the process has ended, which the process that forked it may know before this one."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, timeout: float = LINGERS_SECONDS) -> int:
        self._process.join(timeout)
        assert self.returncode is not None, f"runs for more than {timeout} s"
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """The rest of stdout and stderr, once the process has ended."""
        rest = ["", ""]

        def read(number: int, pipe: IO[str] | None) -> None:
            if pipe is not None:
                with pipe:
                    rest[number] = pipe.read()

        readers = [Thread(target=read, args=pipe) for pipe in enumerate((self.stdout, self.stderr))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.wait()
        return rest[0], rest[1]

    def succeeds(self) -> tuple[str, str]:
        """stdout and stderr of a process that must end well."""
        told = self.communicate()
        assert self.returncode == 0, told
        return told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.communicate()


@dataclass(frozen=True)
class _Start:
    """What the process begins with."""

    arguments: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    errors: bool
    session: bool
    limits: dict[int, int]


def _end(descriptor: int | None) -> tuple[IO[str] | None, Connection]:
    """What is read here, if a pipe is asked for, and where the process writes."""
    if descriptor is not None:
        return None, Connection(os.dup(descriptor), readable=False)
    reader, writer = os.pipe()
    return os.fdopen(reader, encoding="utf-8", errors="surrogateescape"), Connection(writer, readable=False)


def _run(start: _Start, *pipes: Connection) -> None:
    for number, pipe in enumerate(pipes, start=1):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    encoding = start.env.get("PYTHONIOENCODING", "utf-8")
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115  # as Python opens them at its start
    sys.stderr = open(2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    if start.session:
        os.setsid()
    os.chdir(start.cwd)
    os.environ.clear()
    os.environ.update(start.env)
    for module in (plots, quality_plots):
        vars(module)["png"] = sketch
    if start.errors:
        warnings.simplefilter("error")
    for limit, most in start.limits.items():
        resource.setrlimit(limit, (most, resource.getrlimit(limit)[1]))
    kind, program, *rest = start.arguments
    sys.argv = [kind if kind == "-c" else program, *rest]
    if kind == "-c":
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
