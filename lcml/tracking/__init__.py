"""Record training runs (MLflow, or nothing) and ask for them again.

An outage of the store never stops or slows a training: see `MlflowTracker`, and lcml.tracking.spool for the files that
then hold the record until `replay` sends it. MLflow is imported only here, and only when a store is opened; to record
a run by a process of its own (lcml.tracking.courier).
"""

from lcml.tracking.address import experiment_name, store_uri
from lcml.tracking.records import DEFAULT_EXPERIMENT, DEFAULT_URI, FINAL, MODEL, DatasetRecord, RunSummary, Status
from lcml.tracking.registry import RegisteredVersion, fetch_onnx, is_reference, log_onnx, register
from lcml.tracking.runs import close_stale_runs, download_artifact, find_run, list_runs, ui_hint
from lcml.tracking.sending import Replayed, replay
from lcml.tracking.tracker import MlflowTracker, NullTracker, Tracker

__all__ = [
    "DEFAULT_EXPERIMENT",
    "DEFAULT_URI",
    "FINAL",
    "MODEL",
    "DatasetRecord",
    "MlflowTracker",
    "NullTracker",
    "RegisteredVersion",
    "Replayed",
    "RunSummary",
    "Status",
    "Tracker",
    "close_stale_runs",
    "download_artifact",
    "experiment_name",
    "fetch_onnx",
    "find_run",
    "is_reference",
    "list_runs",
    "log_onnx",
    "register",
    "replay",
    "store_uri",
    "ui_hint",
]
