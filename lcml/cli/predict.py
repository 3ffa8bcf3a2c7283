"""`lcml predict`."""

import typer


def predict() -> None:
    """Not written yet."""
    typer.echo("not written yet", err=True)
    raise typer.Exit(2)
