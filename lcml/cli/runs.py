"""`lcml runs`."""

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcml.cli.common import JsonOption, TrackingUriOption, option, print_json, print_table
from lcml.errors import SettingsError

if TYPE_CHECKING:
    from lcml.tracking import RunSummary

_LIMIT = 20
_ID_LENGTH = 8
_SMALLER_IS_BETTER = ("loss", "objective", "seconds", "n_")


def runs(
    experiment: Annotated[str | None, option("The experiment to list; by default lcml.", metavar="NAME")] = None,
    tracking_uri: TrackingUriOption = None,
    sort: Annotated[
        str | None,
        option(
            "Put the best run first by this metric (small losses, seconds and counts, large others); "
            "by default the newest.",
            metavar="METRIC",
        ),
    ] = None,
    limit: Annotated[int, option("How many runs to show.", metavar="N", min=1)] = _LIMIT,
    json: JsonOption = False,
    close_stale: Annotated[
        bool,
        option(
            "Instead: set to KILLED the runs whose process has died here, or of which nothing was heard for a "
            "quarter of an hour; send and tidy up what they left here.",
            "--close-stale",
        ),
    ] = False,
    close_all: Annotated[
        bool, option("With --close-stale: also runs that never say that they live (of versions before 0.2).", "--all")
    ] = False,
    replay: Annotated[
        Path | None,
        option(
            "Instead: send what an outage of the tracking server left in this spool, or in all of a directory, "
            "and delete it.",
            metavar="SPOOL",
        ),
    ] = None,
) -> None:
    """Compare recorded runs in a table."""
    from lcml.tracking import experiment_name, list_runs, store_uri

    uri, name = store_uri(tracking_uri), experiment_name(experiment)
    if close_all and not close_stale:
        raise SettingsError("--all says which runs --close-stale closes; give both or neither")
    if close_stale:
        return _close_stale(uri, name, close_all, json)
    if replay is not None:
        return _replay(replay, tracking_uri, json)
    found = list_runs(uri, name, limit=None if sort else limit)
    if sort:
        found = _best_first(found, sort)[:limit]
    rows = [_row(run) for run in found]
    columns = list(rows[0]) if rows else ["name"]
    if sort and sort not in columns:
        columns.append(sort)
        for row, run in zip(rows, found, strict=True):
            row[sort] = _figure(run, sort)
    if json:
        return print_json({"runs": rows})
    for row in rows:
        row["run_id"] = row["run_id"][:_ID_LENGTH]
    print_table(columns, [[row[column] for column in columns] for row in rows])
    return None


def _close_stale(uri: str, experiment: str, everything: bool, json: bool) -> None:
    from lcml.files import remove_unfinished
    from lcml.runs.records import CHECKPOINT_TAG
    from lcml.tracking import close_stale_runs
    from lcml.tracking.sending import replay_leftovers, spool_directory

    sent = list(replay_leftovers(spool_directory(uri), uri))
    closed = close_stale_runs(uri, experiment, everything=everything)
    for run in closed:
        if CHECKPOINT_TAG in run.tags:
            remove_unfinished(Path(run.tags[CHECKPOINT_TAG]).parent)
    if json:
        return print_json({"closed": [run.run_id for runs in (sent, closed) for run in runs]})
    for one in sent:
        typer.echo(f"sent what was left of run {one.run_id} ({one.status})")
    for run in closed:
        typer.echo(f"closed run {run.run_id} ({run.name})")
    if not sent and not closed:
        typer.echo("no run is stale")
    return None


def _replay(spool: Path, uri: str | None, json: bool) -> None:
    from lcml.tracking import replay

    sent = replay(spool, uri)
    if json:
        return print_json({"sent": [{**dataclasses.asdict(one), "spool": str(one.spool)} for one in sent]})
    for one in sent:
        typer.echo(f"run {one.run_id} ({one.status}): {one.n_metrics} metrics and {one.n_artifacts} files sent")
    if not sent:
        typer.echo(f"{spool} holds nothing to send")
    return None


def _row(run: "RunSummary") -> dict[str, Any]:
    """What the table shows of a run; None where it does not know."""
    seed = run.params.get("seed", "")
    seconds = _figure(run, "seconds")
    return {
        "name": run.name,
        "run_id": run.run_id,
        "status": run.status,
        "data": run.params.get("data"),
        "parameters": _whole(_figure(run, "n_parameters")),
        "elements": _whole(_figure(run, "n_elements")),
        "valid_accuracy": _figure(run, "valid_accuracy"),
        "test_accuracy": _figure(run, "test_accuracy"),
        "seconds": run.seconds if seconds is None else seconds,
        "seed": int(seed) if seed.isdecimal() else None,
    }


def _figure(run: "RunSummary", name: str) -> float | None:
    """The figure called so: that of the model kept, or of the last round; None where there is none that is finite."""
    value = next((run.metrics[alias] for alias in _aliases(name) if alias in run.metrics), None)
    return value if value is not None and math.isfinite(value) else None


def _aliases(name: str) -> tuple[str, ...]:
    """What a metric was called in other versions: test_accuracy is final/test_accuracy now, train_loss train/loss."""
    plain = name.removeprefix("final/").removeprefix("model/")
    headed = (f"final/{plain}", f"model/{plain}", plain, plain.replace("_", "/", 1), f"circuit/{plain}")
    return name, *headed, f"time/{plain.removeprefix('seconds_')}_seconds"


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _best_first(runs: "list[RunSummary]", metric: str) -> "list[RunSummary]":
    """Runs without the metric come last. Raises SettingsError where none has it."""
    known = sorted({name for run in runs for name in run.metrics})
    if not any(alias in known for alias in _aliases(metric)):
        raise SettingsError(f"no run has the metric {metric!r}; they have {', '.join(known) or 'none'}")
    sign = 1 if any(part in metric for part in _SMALLER_IS_BETTER) else -1

    def key(run: "RunSummary") -> tuple[bool, float]:
        value = _figure(run, metric)
        return value is None, 0.0 if value is None else sign * value

    return sorted(runs, key=key)
