"""Record training runs (MLflow, or nothing) and ask for them again.

An outage of the store never stops or slows a training: see `MlflowTracker`, and lcml.tracking.spool for the files that
then hold the record until `replay` sends it. MLflow is imported only here, and only when a store is opened.
"""

from lcml.tracking.records import DEFAULT_EXPERIMENT, DEFAULT_URI, DatasetRecord, RunSummary, Status
from lcml.tracking.replay import Replayed, replay
from lcml.tracking.runs import close_stale_runs, download_artifact, find_run, list_runs, ui_hint
from lcml.tracking.tracker import MlflowTracker, NullTracker, Tracker

__all__ = [
    "DEFAULT_EXPERIMENT",
    "DEFAULT_URI",
    "DatasetRecord",
    "MlflowTracker",
    "NullTracker",
    "Replayed",
    "RunSummary",
    "Status",
    "Tracker",
    "close_stale_runs",
    "download_artifact",
    "find_run",
    "list_runs",
    "replay",
    "ui_hint",
]
