"""`lcml train`."""

import typer


def train() -> None:
    """Not written yet."""
    typer.echo("not written yet", err=True)
    raise typer.Exit(2)
