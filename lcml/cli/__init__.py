"""The command line: one module per command, imported when it is asked for, so that `lcml --version` imports little."""

import errno
import importlib
import signal
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from lcml import __version__
from lcml.cli.streams import settle
from lcml.errors import LcmlError, shortened

COMMANDS = (
    *("train", "evaluate", "predict", "explain", "report", "inspect", "runs"),
    *("compact", "card", "export", "sign", "register", "serve", "convert", "reproduce", "bench"),
)
"""Command NAME is the function NAME of the module lcml.cli.NAME; in the order of the help.

A module's TYPER_OPTIONS, if it has them, say how Typer is to treat its command.
"""


class _Group(typer.core.TyperGroup):
    """Imports commands on demand; turns the errors of lcml into one line on stderr and exit code 2."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        single = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
        module = importlib.import_module(f"lcml.cli.{cmd_name}")
        single.command(cmd_name, **getattr(module, "TYPER_OPTIONS", {}))(getattr(module, cmd_name))
        return typer.main.get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # where Typer looks for similar names
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except LcmlError as error:
            _fail(str(error), error)
        except MemoryError as error:
            _fail(f"out of memory: {str(error) or 'no more is free'}; take fewer examples or smaller limits", error)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of the output left: Typer ends quietly
                raise
            place = "the output" if error.filename is None else error.filename
            _fail(f"cannot read or write {place}: {error.strerror or error}", error)
        except Exception as error:
            if isinstance(message := getattr(error, "message", None), str):  # a usage error, which Typer prints
                error.message = shortened(message)  # type: ignore[attr-defined]
            raise


def _fail(message: str, error: Exception) -> NoReturn:
    typer.secho(f"Error: {shortened(message)}", err=True, fg=typer.colors.RED)
    raise typer.Exit(2) from error


app = typer.Typer(
    name="lcml",
    cls=_Group,
    help="Learn, compare, explain and deploy logistic circuits.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lcml {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Ends a command as an error does, so that no unfinished file stays."""
    raise SystemExit(128 + number)


def main() -> None:
    """The `lcml` program."""
    settle()
    signal.signal(signal.SIGTERM, _leave)
    app()
