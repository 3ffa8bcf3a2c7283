"""`lcml evaluate`."""

import typer


def evaluate() -> None:
    """Not written yet."""
    typer.echo("not written yet", err=True)
    raise typer.Exit(2)
