"""`lcml convert`."""

import typer


def convert() -> None:
    """Not written yet."""
    typer.echo("not written yet", err=True)
    raise typer.Exit(2)
