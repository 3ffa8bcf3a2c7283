"""`lcml reproduce`."""

from typing import Annotated

import typer

from lcml.cli.common import BackendOption, DataDirOption, JsonOption, TrackingUriOption, open_backend

_INTERRUPTED = 130


def reproduce(
    table: Annotated[
        int | None,
        typer.Option(min=1, max=3, help="Only this table of the paper: 1 accuracy, 2 sizes, 3 fewer images."),
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Run only this row, or rows, such as mnist-100-flat or 'mnist-*'; repeat the option."
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Do not run this row, or rows, such as '*-svm'; repeat the option."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Take circuits from DIR/RECIPE.lcml that were trained with a row's settings, and only measure them.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few training images, few iterations: a few minutes, to try it out.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Directory of the results; else reproduction (-quick with --quick)."
        ),
    ] = None,
    data_dir: DataDirOption = None,
    backend: BackendOption = "auto",
    no_tracking: Annotated[bool, typer.Option("--no-tracking", help="Record the runs nowhere.")] = False,
    tracking_uri: TrackingUriOption = None,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run the paper's experiments and write its tables beside its claims: circuits and scikit-learn's models.

    What is in DIR already is not run again, and an interrupted training goes on, so the same command ends what was
    stopped. Quick rows run first, and the tables are written after each. Test images are read for the final accuracy
    of a row and for nothing else.
    """
    from pathlib import Path

    from lcml.cli.run_reproduction import run
    from lcml.errors import SettingsError
    from lcml.reproduce.experiments import TABLES
    from lcml.reproduce.runner import Setup

    if no_tracking and tracking_uri is not None:
        raise SettingsError("no_tracking and tracking_uri contradict each other; leave one out")
    directory = Path(output or ("reproduction-quick" if quick else "reproduction"))
    setup = Setup(
        directory, quick, data_dir, backend, no_tracking, tracking_uri, None if models is None else Path(models)
    )
    open_backend(backend)
    tables = tuple(TABLES) if table is None else (table,)
    try:
        exit_code = run(setup, tables, row or ["*"], skip or [], json=json, quiet=quiet)
    except KeyboardInterrupt:
        exit_code = _INTERRUPTED
    if exit_code:
        typer.echo("Stopped; the same command goes on from here.", err=True)
        raise typer.Exit(exit_code)
