"""Find the checkpoint that `lcml train --resume` names, and what may change when a run goes on."""

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lcml.errors import LcmlError, SettingsError, TrackingError
from lcml.runs.checkpoint import Checkpoint, load_checkpoint
from lcml.runs.records import CHECKPOINT_TAG
from lcml.tracking import RunSummary, find_run, store_uri
from lcml.tracking.sending import replay_leftovers, spool_directory

_CHANGEABLE = (
    *("rounds", "max_elements", "max_parameters", "prune_to", "time_limit", "patience"),
    *("data", "data_dir", "backend", "cluster", "memory_budget"),
    *("output", "export", "report", "no_tracking", "tracking_uri"),
)
"""Limits, and where things are; whatever else decides the result stays as it was."""


def resume(name: str, options: Mapping[str, Any]) -> tuple[Checkpoint, Path]:
    """The checkpoint of the run or file `name`, its configuration changed by `options`, and its path.

    Raises SettingsError for an option that cannot change, TrackingError for an unknown run or one whose checkpoint is
    gone, FormatError for a file that is no checkpoint.
    """
    fixed = [option for option in options if option not in _CHANGEABLE]
    if fixed:
        option = fixed[0].replace("_", "-")
        raise SettingsError(f"--{option} cannot change in a run that goes on; leave it out, or start a new run")
    path, run = Path(name), None
    if not path.is_file():
        run = _find(name, options.get("tracking_uri"))
        path = _checkpoint_of(run)
    checkpoint = load_checkpoint(path)
    changes = dict(options)
    if changes.get("no_tracking"):
        changes |= {"tracking_uri": None, "experiment": None, "run_name": None}
    elif run is not None or "tracking_uri" in changes:
        changes["no_tracking"] = False
    config = checkpoint.config.with_options(changes)
    if not config.no_tracking:
        with suppress(LcmlError):  # what the run did not send before it died belongs to the same run
            uri = store_uri(config.tracking_uri)
            list(replay_leftovers(spool_directory(uri), uri))
    run_id = checkpoint.run_id if run is None else run.run_id
    if run_id is None and not config.no_tracking and config.run_name is None:
        with suppress(TrackingError):  # a run that died before it knew its id; its name has a random part
            run_id = find_run(checkpoint.run_name, config.tracking_uri).run_id
    return dataclasses.replace(checkpoint, config=config, run_id=run_id), path


def _find(name: str, uri: str | None) -> RunSummary:
    try:
        return find_run(name, uri)
    except TrackingError as error:
        raise TrackingError(f"--resume {name}: there is no such file, and no such run either: {error}") from error


def _checkpoint_of(run: RunSummary) -> Path:
    tag = run.tags.get(CHECKPOINT_TAG)
    if tag is None:
        raise TrackingError(f"run {run.run_id} has no checkpoint: it is no training of lcml")
    if not Path(tag).is_file():
        raise TrackingError(f"the checkpoint of run {run.run_id}, {tag}, is not there; give the path it has now")
    return Path(tag)
