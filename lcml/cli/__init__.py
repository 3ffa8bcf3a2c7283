"""The command line: one module per command, imported when it is asked for, so that `lcml --version` imports little."""

import errno
import importlib
from typing import Annotated, Any

import typer

from lcml import __version__
from lcml.cli.streams import settle
from lcml.errors import LcmlError

COMMANDS = (
    *("train", "evaluate", "predict", "explain", "inspect", "runs"),
    *("compact", "export", "register", "serve", "convert", "reproduce", "bench"),
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

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except LcmlError as error:
            typer.secho(f"Error: {error}", err=True, fg=typer.colors.RED)
            raise typer.Exit(2) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of the output left: Typer ends quietly
                raise
            place = "the output" if error.filename is None else error.filename
            typer.secho(
                f"Error: cannot read or write {place}: {error.strerror or error}", err=True, fg=typer.colors.RED
            )
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


def main() -> None:
    """The `lcml` program."""
    settle()
    app()
