"""The one module that talks to MLflow, through its client alone: no global state of MLflow's is touched (but where
lcml.tracking.models says so, for the time of a call).

Methods of `Store` raise what MLflow raises; `translated` turns that into TrackingError for callers who wait.
"""

import contextlib
import json
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from lcml.errors import LcmlError, MissingDependencyError, TrackingError
from lcml.tracking.address import require_reachable, shown, sqlite_path
from lcml.tracking.database import alone
from lcml.tracking.processes import HEARTBEAT_TAG
from lcml.tracking.records import (
    MAX_DIGEST,
    MAX_PARAM,
    MAX_TAG,
    Artifact,
    DatasetRecord,
    Finish,
    Metrics,
    RunStart,
    clean_name,
    cut,
)

KEY_TAG = "lcml.key"
OPENED_TAG = "lcml.opened"  # when it was opened last: what an earlier process left behind changes no later status
CHANGED_TAG = "lcml.changed."  # + parameter: its value in a resumed run, where it differs from the first

_KIND_TAG, _KIND = "mlflow.experimentKind", "custom_model_development"
_MOST_COLUMNS = 1000  # of a data set, that are named one by one in its schema

METRICS_PER_CALL = 1000  # MLflow's limits of one log_batch
PARAMS_PER_CALL = 100
_MESSAGE_LENGTH = 300

_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
_UNLESS_SET = {  # MLflow's own defaults let one call to a dead server block for four minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
}
_LOG_LEVELS = {  # what fails is raised as well, and said by us in a sentence
    "mlflow": logging.CRITICAL,
    "sqlalchemy.pool": logging.CRITICAL,
    "alembic": logging.ERROR,
    "urllib3.connectionpool": logging.ERROR,
}


def require_mlflow() -> None:
    """MissingDependencyError where MLflow is not installed. It is not imported."""
    if find_spec("mlflow") is None:
        raise _missing()


def import_mlflow(uri: str) -> None:
    """Import all of MLflow that a store at `uri` uses, telling it to be quiet; MissingDependencyError without it."""
    os.environ.update(_QUIET)
    for name, value in _UNLESS_SET.items():
        os.environ.setdefault(name, value)
    try:
        with quiet():
            import mlflow  # which sets levels itself

            for logger, level in _LOG_LEVELS.items():
                logging.getLogger(logger).setLevel(level)
            import mlflow.pyfunc
            import mlflow.tracking.client

            if not uri.startswith("http"):
                import mlflow.store.tracking.sqlalchemy_store  # noqa: F401  here, not in two threads at once
    except ImportError as error:
        raise _missing() from error


def _missing() -> MissingDependencyError:
    return MissingDependencyError("mlflow", "tracking", "tracking (--no-tracking does without it)")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings, for as long as this takes: of MLflow's of its own use of others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def translated(uri: str) -> Iterator[None]:
    """Turn whatever MLflow raises about `uri` into TrackingError."""
    try:
        yield
    except LcmlError:
        raise
    except Exception as error:
        raise TrackingError(f"tracking store {shown(uri)}: {brief(error, uri)}") from error


def brief(error: Exception, uri: str) -> str:
    """The first line of an error's message, cut, without passwords."""
    text = str(error).strip() or type(error).__name__
    return cut(text.splitlines()[0].replace(uri, shown(uri)), _MESSAGE_LENGTH)


class Store:
    """An open tracking store. Opening a sqlite database creates it where there is none, one process at a time."""

    def __init__(self, uri: str) -> None:
        from mlflow.tracking.client import MlflowClient

        require_reachable(uri)
        self.uri = uri
        self.experiment: str | None = None  # the id of the last run's experiment
        path = sqlite_path(uri)
        if path is not None:  # MLflow keeps a database open by its address, in whatever directory the process is
            uri = f"{uri.partition(':')[0]}:///{path.absolute()}"
        with alone(self.uri):
            self.client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)

    def experiment_id(self, name: str, artifact_location: str | None) -> str:
        """The experiment of that name, or else of that id; created where there is none, unless `name` is a number."""
        from mlflow.exceptions import MlflowException

        with alone(self.uri):
            found = self.find_experiment(name)
            if found is None:
                if name.isdecimal():
                    raise TrackingError(f"{shown(self.uri)} has no experiment {name}; give its name, or the id of one")
                try:
                    where = artifact_location or self._artifacts()
                    return str(self.client.create_experiment(name, where, {_KIND_TAG: _KIND}))
                except MlflowException as error:  # another process was quicker
                    found = self.find_experiment(name)
                    if found is None:
                        raise error
        if found.lifecycle_stage == "deleted":
            raise TrackingError(f"experiment {name!r} is deleted; run `mlflow experiments restore` or name another")
        if _KIND_TAG not in found.tags:  # its pages are those of machine learning, unless somebody chose otherwise
            self.client.set_experiment_tag(found.experiment_id, _KIND_TAG, _KIND)
        return str(found.experiment_id)

    def find_experiment(self, name: str) -> Any:
        """The experiment of that name or else of that id, None where there is none."""
        from mlflow.exceptions import MlflowException

        found = self.client.get_experiment_by_name(name)
        if found is not None or not name.isdecimal():
            return found
        try:
            return self.client.get_experiment(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None

    def open_run(self, start: RunStart, *, live: bool) -> str:
        """Create the run, or find it again (by id, else by key); its id.

        A run found is set to RUNNING if it is `live`, and gets the tags of `start` unless it was opened again since.
        Parameters it has with another value stay, and the new value becomes the tag lcml.changed.NAME.
        """
        from mlflow.entities import DatasetInput, InputTag, Param, RunTag
        from mlflow.entities.dataset import Dataset
        from mlflow.exceptions import MlflowException

        experiment = self.experiment = self.experiment_id(start.experiment, start.artifact_location)
        tags = {clean_name(name): cut(value, MAX_TAG) for name, value in start.tags.items()}
        tags |= {KEY_TAG: start.key, OPENED_TAG: str(start.time), HEARTBEAT_TAG: str(start.time)}
        run = self._find(start, experiment)
        if run is None:
            run = self.client.create_run(experiment, start_time=start.time, tags=tags, run_name=start.name)
            tags = {}
        else:
            tags[KEY_TAG] = run.data.tags.get(KEY_TAG, start.key)
            if _opened(run) > start.time:
                tags = {}
            elif live:
                self.client.update_run(run.info.run_id, status="RUNNING")
        run_id = str(run.info.run_id)

        params = {clean_name(name): cut(value, MAX_PARAM) for name, value in start.params.items()}
        known = run.data.params
        changed = {CHANGED_TAG + name: v for name, v in params.items() if known.get(name, v) != v}
        tags |= {clean_name(name): cut(value, MAX_TAG) for name, value in changed.items()}
        new = [Param(name, value) for name, value in params.items() if name not in known]
        marks = [RunTag(name, value) for name, value in tags.items()]
        for first in range(0, max(len(new), len(marks)), PARAMS_PER_CALL):
            last = first + PARAMS_PER_CALL
            self.client.log_batch(run_id, params=new[first:last], synchronous=True)
            self.client.log_batch(run_id, tags=marks[first:last], synchronous=True)
        if any(len(value) > MAX_PARAM for value in start.params.values()):
            self.send_artifact(run_id, Artifact("params.json", json.dumps(dict(start.params), indent=2).encode()))

        data = start.dataset
        described = {"profile": data.profile(), "schema": _schema(data)}
        record = Dataset(data.name, data.digest[:MAX_DIGEST], "lcml", data.source, **described)
        inputs = [DatasetInput(record, [InputTag("mlflow.data.context", "training")])]
        try:
            self.client.log_inputs(run_id, inputs)
        except MlflowException as error:
            if error.error_code != "BAD_REQUEST":
                raise
            self.client.log_inputs(run_id, inputs)  # another process had recorded the same data in between
        return run_id

    def send_metrics(self, run_id: str, events: Sequence[Metrics]) -> None:
        """Send the values of many steps in as few calls as MLflow allows. A value sent before is not doubled."""
        from mlflow.entities import Metric

        values = [
            Metric(clean_name(name), value, event.time, event.step)
            for event in events
            for name, value in event.values.items()
        ]
        for first in range(0, len(values), METRICS_PER_CALL):
            self.client.log_batch(run_id, metrics=values[first : first + METRICS_PER_CALL], synchronous=True)

    def send_artifact(self, run_id: str, artifact: Artifact) -> None:
        """Send one file; it takes the place of one of the same name."""
        name, content = PurePosixPath(artifact.name), artifact.content
        with contextlib.ExitStack() as stack:
            if isinstance(content, bytes):
                file = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lcml-"))) / name.name
                file.write_bytes(content)
            else:
                file = content
            self.client.log_artifact(run_id, str(file), str(name.parent) if name.parent.name else None)

    def beat(self, run_id: str) -> None:
        """Say that the run's process lives."""
        self.client.set_tag(run_id, HEARTBEAT_TAG, str(time.time_ns() // 1_000_000), synchronous=True)

    def status(self, run_id: str) -> str:
        return str(self.client.get_run(run_id).info.status)

    def close_run(self, run_id: str, finish: Finish, opened: int) -> None:
        """Set the final status of the run that was opened at time `opened`, unless it was opened again since."""
        if _opened(self.client.get_run(run_id)) <= opened:
            self.client.set_terminated(run_id, finish.status, finish.time)

    def _find(self, start: RunStart, experiment: str) -> Any:
        from mlflow.exceptions import MlflowException

        if start.run_id is not None:
            try:
                return self.client.get_run(start.run_id)
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
        return next(iter(self.client.search_runs([experiment], f"tags.`{KEY_TAG}` = '{start.key}'")), None)

    def _artifacts(self) -> str | None:
        """mlruns/ beside a sqlite database (the database's own directory if it has that name); else the server's."""
        path = sqlite_path(self.uri)
        if path is None:
            return None
        directory = path.resolve().parent
        return (directory if directory.name == "mlruns" else directory / "mlruns").as_uri()


def _schema(data: DatasetRecord) -> str:
    """The columns of the data as MLflow's pages show them."""
    from mlflow.types import ColSpec, Schema, TensorSpec

    if 0 < len(data.feature_names) <= _MOST_COLUMNS:
        columns = Schema([ColSpec("double", name) for name in data.feature_names])
        return json.dumps({"mlflow_colspec": columns.to_dict()})
    features = Schema([TensorSpec(np.dtype(np.float64), (-1, data.n_variables))])
    return json.dumps({"mlflow_tensorspec": {"features": features.to_json(), "targets": None}})


def _opened(run: Any) -> int:
    return int(run.data.tags.get(OPENED_TAG, "0"))
