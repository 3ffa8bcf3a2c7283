"""`lcml runs`."""

import typer


def runs() -> None:
    """Not written yet."""
    typer.echo("not written yet", err=True)
    raise typer.Exit(2)
