"""`lcml inspect`."""

import typer


def inspect() -> None:
    """Not written yet."""
    typer.echo("not written yet", err=True)
    raise typer.Exit(2)
