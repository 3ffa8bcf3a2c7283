"""The command line: one module per command, light to import: what is heavy is imported when it runs."""

import importlib
from typing import Annotated, Any

import typer

from lcml import __version__
from lcml.errors import LcmlError


class _Group(typer.core.TyperGroup):
    """Turns the errors of lcml into one line on stderr and exit code 2."""

    def invoke(self, ctx: typer.Context) -> Any:
        try:
            return super().invoke(ctx)
        except LcmlError as error:
            typer.secho(f"Error: {error}", err=True, fg=typer.colors.RED)
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


for _command in ("train", "evaluate", "predict", "inspect", "runs", "convert"):
    _function = getattr(importlib.import_module(f"lcml.cli.{_command}"), _command)
    app.command(_command)(_function)


def main() -> None:
    """The `lcml` program."""
    app()
