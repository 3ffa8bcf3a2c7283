"""What `lcml reproduce` does once its options are known. Heavy to import: the command does so when it runs."""

import dataclasses
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import typer

from lcml.cli.common import print_json, require_packages
from lcml.cli.run_training import watched
from lcml.cli.signals import StopSignals
from lcml.errors import SettingsError
from lcml.runs.recipes import recipe_names
from lcml.runs.reproduce import runner
from lcml.runs.reproduce.experiments import Row, rows_of
from lcml.runs.reproduce.results import RowResult, check_same, load_row, row_path, save_row
from lcml.runs.reproduce.runner import Setup
from lcml.runs.reproduce.tables import write_picture, write_tables
from lcml.runs.training import make_learner
from lcml.tracking import MlflowTracker, NullTracker, Tracker, experiment_name, store_uri
from lcml.tracking.store import import_mlflow


def run(
    setup: Setup, tables: Sequence[int], wanted: Sequence[str], skipped: Sequence[str], *, json: bool, quiet: bool
) -> int:
    """Run the rows of `tables` that are not there yet, of these only those `wanted` and not `skipped` (names, in which
    * stands for anything), and write the tables.

    The exit code: 0, or that of the signal by which a row was stopped.
    """
    rows = rows_of(tables, recipe_names())
    chosen = _matching(rows, "row", wanted) - _matching(rows, "skip", skipped)
    if not setup.no_tracking:  # what the end needs, before anything is done
        import_mlflow(store_uri(setup.tracking_uri))
    require_packages("matplotlib", extra="tracking", purpose="drawing accuracy against size")
    results = _results_there(rows, setup)
    missing = [row for row in rows if row not in results and row in chosen]
    if any(row.model == "cnn" for row in missing):
        require_packages("jax", extra="reproduce", purpose="fitting a CNN (--skip '*-cnn' leaves it out)")
    exit_code = 0
    for number, row in enumerate(missing, start=1):
        result, exit_code = _run_row(row, setup, f"{row.name} ({number} of {len(missing)})", quiet=quiet)
        if result is not None:
            save_row(setup.directory, result)
            results[row] = result
            write_tables(setup.directory, tables, results)
            if not quiet:
                typer.echo(f"{row.name}: test accuracy {result.test_accuracy:.2%}, {result.seconds:.1f} s", err=True)
        if exit_code:
            break
    paths = [*write_tables(setup.directory, tables, results), write_picture(setup.directory, results)]
    if exit_code:
        return exit_code
    if json:
        print_json({"tables": [str(path) for path in paths], "rows": list(map(dataclasses.asdict, results.values()))})
    else:
        for path in paths:
            typer.echo(path.read_text(encoding="utf-8") if path.suffix == ".md" else f"Written: {path}")
    return 0


def _matching(rows: Sequence[Row], option: str, patterns: Sequence[str]) -> set[Row]:
    """The rows whose name one of the patterns is; SettingsError for a pattern of none."""
    found = set()
    for pattern in patterns:
        matches = {row for row in rows if fnmatchcase(row.name, pattern)}
        if not matches:
            names = ", ".join(row.name for row in rows)
            raise SettingsError(f"{option}: expected one of {names}, or some of them as in '*-svm'; found {pattern!r}")
        found |= matches
    return found


def _results_there(rows: Sequence[Row], setup: Setup) -> dict[Row, RowResult]:
    """The rows that have been run; an error, before any other, where one was run otherwise or is damaged."""
    results = {}
    for row in rows:
        result = load_row(setup.directory, row.name)
        if result is not None:
            check_same(row_path(setup.directory, row.name), result.settings, runner.row_settings(row, setup))
            results[row] = result
    return results


def _run_row(row: Row, setup: Setup, title: str, *, quiet: bool) -> tuple[RowResult | None, int]:
    """The result, None where it was stopped, and the exit code: not 0 where a signal came."""
    say: Callable[[str], None] = (lambda message: None) if quiet else (lambda message: typer.echo(message, err=True))
    if row.recipe is None:
        with StopSignals("Stopping; this row begins anew next time.") as signals:
            say(title)
            tracker = _tracker(setup, lambda message: typer.echo(message, err=True))
            return runner.run_baseline(row, setup, tracker, should_stop=lambda: signals.requested), signals.exit_code
    found = runner.trained_model(row, setup)
    if found is not None:
        path, model = found
        say(f"{title} from {path}")
        return runner.measure(row, setup, model), 0
    say(title)
    prepared = runner.prepare_circuit(row, setup)
    with watched(prepared, quiet=quiet) as (progress, signals, should_stop):
        learner = make_learner(prepared, should_stop)
        tracker = _tracker(setup, progress.say)
        run_circuit = runner.run_circuit
        result = run_circuit(row, setup, prepared, learner, tracker, on_round=progress.round, should_stop=should_stop)
    return result, signals.exit_code


def _tracker(setup: Setup, notify: Callable[[str], None]) -> Tracker:
    if setup.no_tracking:
        return NullTracker()
    return MlflowTracker(setup.tracking_uri, experiment_name(None, runner.EXPERIMENT), notify=notify)
