"""`lcml reproduce`."""

from typing import Annotated

import typer

from lcml.cli.common import BackendOption, DataDirOption, JsonOption, TrackingUriOption, open_backend, option

_INTERRUPTED = 130


def reproduce(
    table: Annotated[
        int | None, option("Only this table of the paper: 1 accuracy, 2 sizes, 3 fewer images.", min=1, max=3)
    ] = None,
    row: Annotated[
        list[str] | None,
        option("Run only this row, or rows, such as mnist-100-flat or 'mnist-*'; repeat the option.", metavar="NAME"),
    ] = None,
    skip: Annotated[
        list[str] | None, option("Do not run this row, or rows, such as '*-svm'; repeat the option.", metavar="NAME")
    ] = None,
    models: Annotated[
        str | None,
        option(
            "Take circuits from DIR/RECIPE.lcml that were trained with a row's settings, and only measure them.",
            metavar="DIR",
        ),
    ] = None,
    quick: Annotated[
        bool, option("Few training images, few iterations: a few minutes, to try it out.", "--quick")
    ] = False,
    seed: Annotated[
        int, option("Of the division of the data, the circuits and the other models.", metavar="N", min=0)
    ] = 0,
    output: Annotated[
        str | None,
        option(
            "Directory of the results; else reproduction (-quick with --quick, -seed-N with another seed than 0).",
            "--output",
            "-o",
            metavar="DIR",
        ),
    ] = None,
    data_dir: DataDirOption = None,
    backend: BackendOption = "auto",
    no_tracking: Annotated[bool, option("Record the runs nowhere.", "--no-tracking")] = False,
    tracking_uri: TrackingUriOption = None,
    json: JsonOption = False,
    quiet: Annotated[bool, option("Show no progress.", "--quiet", "-q")] = False,
) -> None:
    """Run the paper's experiments and write its tables beside its claims: circuits, scikit-learn's models, a CNN.

    What is in DIR already is not run again, and an interrupted training goes on, so the same command ends what was
    stopped. Quick rows run first, and the tables are written after each. Test images are read for the final accuracy
    of a row and for nothing else.
    """
    from pathlib import Path

    from lcml.cli.run_reproduction import run
    from lcml.errors import SettingsError
    from lcml.runs.reproduce.experiments import TABLES
    from lcml.runs.reproduce.runner import Setup

    if no_tracking and tracking_uri is not None:
        raise SettingsError("no_tracking and tracking_uri contradict each other; leave one out")
    usual = "reproduction" + "-quick" * quick + f"-seed-{seed}" * (seed > 0)
    trained = None if models is None else Path(models)
    setup = Setup(Path(output or usual), quick, data_dir, backend, no_tracking, tracking_uri, trained, seed)
    open_backend(backend)
    tables = tuple(TABLES) if table is None else (table,)
    try:
        exit_code = run(setup, tables, row or ["*"], skip or [], json=json, quiet=quiet)
    except KeyboardInterrupt:
        exit_code = _INTERRUPTED
    if exit_code:
        typer.echo("Stopped; the same command goes on from here.", err=True)
        raise typer.Exit(exit_code)
