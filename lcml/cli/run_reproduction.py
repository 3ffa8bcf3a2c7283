"""What `lcml reproduce` does once its options are known. Heavy to import: the command does so when it runs."""

import dataclasses
import importlib.util
from collections.abc import Callable, Sequence

import typer

from lcml.cli.common import print_json
from lcml.cli.progress import TrainProgress
from lcml.cli.signals import StopSignals
from lcml.errors import MissingDependencyError, SettingsError
from lcml.recipes import recipe_names
from lcml.reproduce import (
    EXPERIMENT,
    Row,
    RowResult,
    Setup,
    check_same,
    load_row,
    prepare_circuit,
    row_path,
    row_settings,
    rows_of,
    run_baseline,
    run_circuit,
    save_row,
    write_tables,
)
from lcml.tracking import DEFAULT_URI, MlflowTracker, NullTracker, Tracker
from lcml.tracking.store import import_mlflow
from lcml.training import make_learner


def run(setup: Setup, tables: Sequence[int], wanted: Sequence[str], *, json: bool, quiet: bool) -> int:
    """Run the rows of `tables` that are not there yet, of these only those `wanted` if any are, and write the tables.

    The exit code: 0, or that of the signal by which a training was stopped.
    """
    rows = rows_of(tables, recipe_names())
    unknown = set(wanted) - {row.name for row in rows}
    if unknown:
        names = ", ".join(row.name for row in rows)
        raise SettingsError(f"row: expected one of {names}, found {min(unknown)!r}")
    _require_packages(setup)
    results = _results_there(rows, setup)
    missing = [row for row in rows if row not in results and (not wanted or row.name in wanted)]
    for number, row in enumerate(missing, start=1):
        if not quiet:
            typer.echo(f"{row.name} ({number} of {len(missing)})", err=True)
        result, exit_code = _run_row(row, setup, quiet=quiet)
        if result is None:
            return exit_code
        save_row(setup.directory, result)
        results[row] = result
        if exit_code:
            return exit_code
        if not quiet:
            typer.echo(f"{row.name}: test accuracy {result.test_accuracy:.2%}, {result.seconds:.1f} s", err=True)
    paths = write_tables(setup.directory, tables, results)
    if json:
        print_json(
            {
                "tables": [str(path) for path in paths],
                "rows": [dataclasses.asdict(result) for result in results.values()],
            }
        )
    else:
        for path in paths:
            typer.echo(path.read_text(encoding="utf-8") if path.suffix == ".md" else f"Written: {path}")
    return 0


def _results_there(rows: Sequence[Row], setup: Setup) -> dict[Row, RowResult]:
    """The rows that have been run; an error, before any other, where one was run otherwise or is damaged."""
    results = {}
    for row in rows:
        result = load_row(setup.directory, row.name)
        if result is not None:
            check_same(row_path(setup.directory, row.name), result.settings, row_settings(row, setup))
            results[row] = result
    return results


def _run_row(row: Row, setup: Setup, *, quiet: bool) -> tuple[RowResult | None, int]:
    """The result and 0, or None and an exit code where it was stopped."""
    if row.recipe is None:
        return run_baseline(row, setup, _tracker(setup, lambda message: typer.echo(message, err=True))), 0
    prepared = prepare_circuit(row, setup)
    state = prepared.checkpoint.state
    first_round = 0 if state is None else state.round + 1
    with TrainProgress(prepared.config.learn, first_round, quiet=quiet) as progress, StopSignals() as signals:

        def should_stop() -> bool:
            progress.tick()
            return signals.requested

        learner = make_learner(prepared, should_stop)
        tracker = _tracker(setup, progress.say)
        result = run_circuit(row, setup, prepared, learner, tracker, on_round=progress.round, should_stop=should_stop)
    return result, signals.exit_code


def _tracker(setup: Setup, notify: Callable[[str], None]) -> Tracker:
    if setup.no_tracking:
        return NullTracker()
    return MlflowTracker(setup.tracking_uri or DEFAULT_URI, EXPERIMENT, notify=notify)


def _require_packages(setup: Setup) -> None:
    """Fail before anything is done where what the end needs is missing."""
    if not setup.no_tracking:
        import_mlflow(setup.tracking_uri or DEFAULT_URI)
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError("matplotlib", "tracking", "drawing accuracy against size")
