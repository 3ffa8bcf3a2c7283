"""Record a training run without ever stopping or slowing it."""

import itertools
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

from lcml.tracking.records import (
    DEFAULT_EXPERIMENT,
    DEFAULT_URI,
    Artifact,
    DatasetRecord,
    Event,
    Finish,
    Metrics,
    RunStart,
    Status,
    check_artifact_name,
)
from lcml.tracking.replay import replay_file
from lcml.tracking.spool import SpoolWriter
from lcml.tracking.store import (
    Store,
    brief,
    import_mlflow,
    prepare,
    process_tags,
    require_reachable,
    shown,
    sqlite_path,
)

FLUSH_SECONDS = 2.0  # how long a measurement may wait for company
FINISH_SECONDS = {True: 60.0, False: 10.0}  # is it sqlite -> how long finish() waits for one call to come back

_log = logging.getLogger("lcml.tracking")

Notify = Callable[[str], None]


class Tracker(Protocol):
    """Where a training run is recorded. Only `start` may raise; `run_id` and `uri` are None where nothing is kept."""

    @property
    def run_id(self) -> str | None:
        """The store's name of the run, as soon as it is known, at the latest after `finish`."""

    @property
    def uri(self) -> str | None:
        """The address of the store, without user and password."""

    def start(
        self,
        run_name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        dataset: DatasetRecord,
        *,
        run_id: str | None = None,
    ) -> None:
        """Open a new run, or the run `run_id` again."""

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Record values measured at `step`."""

    def artifact(self, name: str, content: bytes | Path) -> None:
        """Record a file, as it is now, under the relative path `name`."""

    def finish(self, status: Status) -> None:
        """Close the run."""


class NullTracker:
    """Records nothing."""

    run_id: str | None = None
    uri: str | None = None

    def start(
        self,
        run_name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        dataset: DatasetRecord,
        *,
        run_id: str | None = None,
    ) -> None:
        """Do nothing."""

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Do nothing."""

    def artifact(self, name: str, content: bytes | Path) -> None:
        """Do nothing."""

    def finish(self, status: Status) -> None:
        """Do nothing."""


class MlflowTracker:
    """Records a run in MLflow from a thread of its own.

    Every method returns at once: `start` after importing MLflow, `finish` after what is waiting is sent or, where the
    store does not answer, after at most `finish_seconds` without progress. From the first call that fails, everything
    goes to a spool (lcml.tracking.spool) in `spool_dir`, and `notify` is told once; where only a file could not be
    sent, only files do. `finish` sends the spool itself if the store is back by then; else `replay` does.

    Raises, in the constructor and `start` only: TrackingError (an address MLflow cannot use, a file that is no
    database), OutputError (an unwritable place), MissingDependencyError.
    """

    def __init__(
        self,
        uri: str = DEFAULT_URI,
        experiment: str = DEFAULT_EXPERIMENT,
        artifact_location: str | None = None,
        *,
        spool_dir: Path | None = None,
        notify: Notify | None = None,
        flush_seconds: float = FLUSH_SECONDS,
        finish_seconds: float | None = None,
    ) -> None:
        prepare(uri)
        database = sqlite_path(uri)
        self.key = uuid.uuid4().hex  # tag lcml.key, and the name of the spool
        self._store_uri, self._experiment, self._artifact_location = uri, experiment, artifact_location
        self._spool_dir = spool_dir or (Path("mlruns") if database is None else database.parent) / "spool"
        self._notify: Notify = notify or _log.warning
        self._flush_seconds = flush_seconds
        self._finish_seconds = FINISH_SECONDS[database is not None] if finish_seconds is None else finish_seconds

        # All below is shared with the worker; _changed guards what both write. It is re-entrant: a signal handler that
        # calls finish() may interrupt any method.
        self._changed = threading.Condition()
        self._waiting: deque[Event] = deque()  # not yet sent nor spooled; what is being sent is still in it
        self._closing = self._done = self._abandoned = self._moved = False
        self._store: Store | None = None
        self._start: RunStart | None = None
        self._run_id: str | None = None
        self._spool: SpoolWriter | None = None
        self._failed: set[type[Event]] = set()  # the kinds of event that go to the spool
        self._messages: list[str] = []  # told outside the lock
        self._losing = False
        self._worker = threading.Thread(target=self._work, name="lcml-tracking", daemon=True)

    @property
    def run_id(self) -> str | None:
        """The run's id, None until the store has given one."""
        return self._run_id

    @property
    def uri(self) -> str | None:
        """The address of the store, without user and password."""
        return shown(self._store_uri)

    @property
    def experiment_id(self) -> str | None:
        """The experiment's id, None until the store has given one."""
        return None if self._store is None else self._store.experiment

    @property
    def spool_path(self) -> Path | None:
        """The file that holds what could not be sent, None where all was."""
        return self._spool.path if self._spool and self._spool.path.exists() else None

    def start(
        self,
        run_name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        dataset: DatasetRecord,
        *,
        run_id: str | None = None,
    ) -> None:
        """Open a new run, or the run `run_id` again; see the class for what it raises."""
        import_mlflow(self._store_uri)
        self._start = RunStart(
            key=self.key,
            name=run_name,
            experiment=self._experiment,
            artifact_location=self._artifact_location,
            params={name: str(value) for name, value in params.items()},
            tags=process_tags() | dict(tags),
            dataset=dataset,
            time=_now(),
            run_id=run_id,
        )
        self._run_id = run_id
        self._put(self._start)
        self._worker.start()

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Record values measured at `step`."""
        self._put(Metrics(_now(), int(step), {name: float(value) for name, value in values.items()}))

    def artifact(self, name: str, content: bytes | Path) -> None:
        """Record a file, as it is now, under the relative path `name`."""
        try:
            self._put(
                Artifact(check_artifact_name(name), content if isinstance(content, bytes) else content.read_bytes())
            )
        except OSError as error:
            self._messages.append(f"not recorded: {name} ({error})")

    def finish(self, status: Status) -> None:
        """Close the run and return in bounded time; calls after the first do nothing."""
        with self._changed:
            if self._closing or self._start is None:
                return
            self._put(Finish(_now(), status))
            self._closing = True
            self._changed.notify_all()
            try:
                while not self._done:
                    self._moved = False
                    if not self._changed.wait_for(lambda: self._done or self._moved, self._finish_seconds):
                        break
            finally:  # also when a second Ctrl-C ends the waiting
                if not self._done:
                    self._abandon()
        self._tell()

    def _put(self, event: Event) -> None:
        with self._changed:
            if self._start is not None and not self._closing:
                self._waiting.append(event)

    # The worker's side.

    def _work(self) -> None:
        while True:
            with self._changed:
                batch = list(self._waiting)
                last = self._closing
            for kind, group in itertools.groupby(batch, type):
                if not self._deliver(kind, list(group)):
                    return
            if last:
                break
            with self._changed:
                self._changed.wait_for(lambda: self._closing, self._flush_seconds)
        self._catch_up()
        self._tell()
        with self._changed:
            self._done = True
            self._changed.notify_all()

    def _deliver(self, kind: type[Event], events: Sequence[Event]) -> bool:
        """Send or spool events of one kind, the first ones waiting; False when finish() has taken over."""
        error = None
        if kind not in self._failed:
            try:
                self._send(events)
            except Exception as caught:  # whatever it is, training goes on
                error = caught
        with self._changed:
            if self._abandoned:
                return False
            if error is not None:
                self._failed |= {Artifact} if kind is Artifact else {RunStart, Metrics, Artifact, Finish}
            if kind in self._failed:
                self._keep(events, "" if error is None else brief(error, self._store_uri))
            for _ in events:
                self._waiting.popleft()
            self._moved = True
            self._changed.notify_all()
        self._tell()
        return True

    def _send(self, events: Sequence[Event]) -> None:
        require_reachable(self._store_uri)
        if self._store is None:
            self._store = Store(self._store_uri)
        if isinstance(events[0], RunStart):
            self._run_id = self._store.open_run(events[0])
            return
        run_id = cast(str, self._run_id)
        if isinstance(events[0], Metrics):
            self._store.send_metrics(run_id, cast(Sequence[Metrics], events))
            return
        for event in {event.name: event for event in events if isinstance(event, Artifact)}.values():
            self._store.send_artifact(run_id, event)
        if isinstance(events[0], Finish):
            self._store.close_run(run_id, events[0])

    def _catch_up(self) -> None:
        """Send the spool, if there is one and the store is back."""
        spool = self._spool
        if spool is None:
            return
        spool.close()
        try:
            self._run_id = replay_file(spool.path, self._store_uri).run_id
            self._messages.append(f"{self.uri} answers again: all of {spool.path} has been sent")
        except Exception as error:
            _log.debug("the spool stays: %s", error)

    def _tell(self) -> None:
        while self._messages:
            try:
                self._notify(self._messages.pop(0))
            except Exception:
                _log.exception("the callback `notify` failed")

    # Both sides, under the lock.

    def _keep(self, events: Sequence[Event], reason: str) -> None:
        """Put events into the spool; the first time, say why."""
        try:
            if self._spool is None:
                start = replace(cast(RunStart, self._start), run_id=self._run_id)
                self._spool = SpoolWriter(self._spool_dir, start, shown(self._store_uri))
                self._messages.append(
                    f"cannot record all of this run at {self.uri} ({reason}). Training goes on; the rest is kept, "
                    f"send it later with `lcml runs --replay {self._spool.path}`"
                )
            for event in events:
                if not isinstance(event, RunStart):
                    self._spool.write(event)
        except OSError as error:
            if not self._losing:
                self._messages.append(
                    f"part of the record of this run is lost: {self.uri} fails ({reason}) and {self._spool_dir} cannot "
                    f"be written ({error})"
                )
            self._losing = True

    def _abandon(self) -> None:
        """Take what is waiting away from a worker that does not come back, into the spool."""
        self._abandoned = True
        if self._waiting:
            self._keep(list(self._waiting), f"no answer within {self._finish_seconds:g} s")
            self._waiting.clear()
        if self._spool is not None:
            self._spool.close()


def _now() -> int:
    return time.time_ns() // 1_000_000
