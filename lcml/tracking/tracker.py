"""Record a training run without ever stopping or slowing it: a journal on disk, and a worker that sends from it."""

import contextlib
import dataclasses
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from lcml.errors import TrackingError
from lcml.files import escaped
from lcml.tracking.address import experiment_name, shown, sqlite_path, store_uri
from lcml.tracking.courier import AnySender, sender_for
from lcml.tracking.database import prepare, require_whole
from lcml.tracking.processes import HEARTBEAT_SECONDS, process_tags
from lcml.tracking.records import Artifact, DatasetRecord, Event, Finish, Metrics, RunStart, Status, check_artifact_name
from lcml.tracking.sending import parcels, spool_directory
from lcml.tracking.spool import SpoolWriter
from lcml.tracking.store import brief

FLUSH_SECONDS = 2.0  # how long a measurement may wait for company
LONGEST_PAUSE = 60.0  # seconds between two attempts to reach a store that does not answer; they begin at FLUSH_SECONDS
FINISH_SECONDS = {True: 60.0, False: 10.0}  # is it sqlite -> how long finish() waits for one call to come back
OPENING_SECONDS = 60.0  # how long it waits for MLflow to be imported, which a run may be shorter than

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
        return

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Record values measured at `step`."""
        return

    def artifact(self, name: str, content: bytes | Path, *, loader: str | None = None) -> None:
        """Record a file, as it is now, under the relative path `name`; a model also as one that `loader` loads."""
        return

    def finish(self, status: Status) -> None:
        """Close the run."""
        return


class NullTracker(Tracker):
    """Records nothing."""

    run_id: str | None = None
    uri: str | None = None


class MlflowTracker(Tracker):
    """Records a run in MLflow from a thread of its own, through `sender` (default: see lcml.tracking.courier).

    Where and under which experiment: as given, else as MLflow's environment variables say, else the defaults. Every
    event is written to the spool (lcml.tracking.spool) in `spool_dir` first, and sent from there. Every method
    returns at once, but `finish` when all is sent or, where the store does not answer, after at most `finish_seconds`
    without progress (OPENING_SECONDS while MLflow is imported). What fails is tried again until the run ends; a file
    that cannot be sent holds up nothing else; `notify` is told once. The spool is deleted when all of it has been sent;
    what is left of it, also after a kill, `replay` sends.

    Raises, in the constructor and `start` only: TrackingError (an address MLflow cannot use, a file that is no
    database), OutputError (an unwritable place), MissingDependencyError.
    """

    def __init__(
        self,
        uri: str | None = None,
        experiment: str | None = None,
        artifact_location: str | None = None,
        *,
        spool_dir: Path | None = None,
        notify: Notify | None = None,
        flush_seconds: float = FLUSH_SECONDS,
        finish_seconds: float | None = None,
        sender: AnySender | None = None,
    ) -> None:
        uri = store_uri(uri)
        prepare(uri)
        database = sqlite_path(uri)
        self.key = uuid.uuid4().hex  # tag lcml.key, and the name of the spool
        self._store_uri, self._experiment = uri, experiment_name(experiment)
        self._artifact_location = artifact_location
        self._spool_dir = (spool_dir or spool_directory(uri)).absolute()
        self._notify: Notify = notify or _log.warning
        self._flush_seconds = flush_seconds
        self._finish_seconds = FINISH_SECONDS[database is not None] if finish_seconds is None else finish_seconds

        # All below is shared with the worker; _changed guards what both write. It is re-entrant: a signal handler that
        # calls finish() may interrupt any method.
        self._changed = threading.Condition()
        self._waiting: deque[Event] = deque()  # not yet sent; what is being sent is still in it
        self._later: list[Event] = []  # files that could not be sent
        self._opened = self._started = self._closing = self._done = self._abandoned = self._moved = False
        self._sender = sender
        self._run_id: str | None = None
        self._spool: SpoolWriter | None = None
        self._failure = ""  # of the store
        self._unkept: OSError | None = None  # why the spool misses something
        self._told: set[str] = set()
        self._messages: list[str] = []  # told outside the lock
        self._worker = threading.Thread(target=self._work, name="lcml-tracking", daemon=True)

    @property
    def run_id(self) -> str | None:
        return self._run_id

    @property
    def uri(self) -> str | None:
        return shown(self._store_uri)

    @property
    def experiment_id(self) -> str | None:
        """The experiment's id, None until the store has given one."""
        return None if self._sender is None else self._sender.experiment

    @property
    def spool_path(self) -> Path | None:
        """The file that holds the run until all of it is sent, None where there is none."""
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
        require_whole(self._store_uri)
        self._sender = self._sender or sender_for(self._store_uri)
        start = RunStart(
            key=self.key,
            name=escaped(run_name),
            experiment=self._experiment,
            artifact_location=self._artifact_location,
            params={name: escaped(str(value)) for name, value in params.items()},
            tags={name: escaped(value) for name, value in (process_tags() | dict(tags)).items()},
            dataset=dataclasses.replace(dataset, name=escaped(dataset.name), source=escaped(dataset.source)),
            time=_now(),
            run_id=run_id,
        )
        self._run_id = run_id
        try:
            self._spool = SpoolWriter(self._spool_dir, start, shown(self._store_uri))
        except OSError as error:
            self._unkept = error
        self._waiting.append(start)
        self._started = True
        self._worker.start()

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self._put(Metrics(_now(), int(step), {name: float(value) for name, value in values.items()}))

    def artifact(self, name: str, content: bytes | Path, *, loader: str | None = None) -> None:
        try:
            content = content if isinstance(content, bytes) else content.read_bytes()
            self._put(Artifact(check_artifact_name(name), content, loader))
        except OSError as error:
            self._messages.append(f"not recorded: {name} ({error})")

    def finish(self, status: Status) -> None:
        """Close the run and return in bounded time; calls after the first do nothing."""
        with self._changed:
            if self._closing or not self._started:
                return
            self._put(Finish(_now(), status))
            self._closing = True
            self._changed.notify_all()
            seconds = self._finish_seconds
            try:
                while not self._done:
                    self._moved = False
                    seconds = self._finish_seconds if self._opened else OPENING_SECONDS
                    if not self._changed.wait_for(lambda: self._done or self._moved, seconds):
                        break
            finally:  # also when a second Ctrl-C ends the waiting
                if not self._done:
                    self._abandoned = True
                    self._report(f"no answer within {seconds:g} s")
                    if self._spool is not None:
                        self._spool.close()
                self._sending.close()
        self._tell()

    def _put(self, event: Metrics | Artifact | Finish) -> None:
        with self._changed:
            if not self._started or self._closing:
                return
            kept: Event = event
            if self._spool is not None:
                try:
                    kept = self._spool.write(event)
                except OSError as error:
                    self._unkept = error
                    self._report("")
            self._waiting.append(kept)

    @property
    def _sending(self) -> AnySender:
        assert self._sender is not None, "no run has been started"
        return self._sender

    # The worker's side.

    def _work(self) -> None:
        with contextlib.suppress(TrackingError):  # said when the first event is sent
            self._sending.open()
        with self._changed:
            self._opened = self._moved = True
            self._changed.notify_all()
        pause, due = self._flush_seconds, 0.0  # due: the next heartbeat
        while not self._done and not self._abandoned:
            with self._changed:
                closing = self._closing
                if closing:
                    self._waiting.extend(self._later)
                    self._later.clear()
                batch = list(self._waiting)
            sent = all(map(self._deliver, parcels(batch)))
            pause = self._flush_seconds if sent else min(2 * pause, LONGEST_PAUSE)
            if sent and not closing and time.monotonic() > due:
                due = time.monotonic() + HEARTBEAT_SECONDS
                self._care()
            with self._changed:
                if closing and not self._abandoned:
                    self._end()
            self._tell()
            with self._changed:
                self._done = closing
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closing, pause)

    def _deliver(self, parcel: list[Event]) -> bool:
        """Send the events that wait first; whether to go on with the next ones."""
        error = None
        try:
            self._sending.send(parcel)
        except Exception as caught:  # whatever it is, training goes on
            error = caught
        with self._changed:
            if self._abandoned:
                return False
            self._run_id = self._sending.run_id or self._run_id
            if error is not None:
                self._report(brief(error, self._store_uri))
                if not isinstance(parcel[0], Artifact):
                    return False
                self._later += parcel
            for _ in parcel:
                self._waiting.popleft()
            self._moved = True
            self._changed.notify_all()
        self._tell()
        return True

    def _care(self) -> None:
        """Say that the run lives, and send what killed ones left."""
        try:
            while self._sending.care(self._spool_dir) and not self._closing:
                pass
        except Exception as error:
            _log.debug("not cared for: %s", error)

    def _tell(self) -> None:
        while self._messages:
            try:
                self._notify(self._messages.pop(0))
            except Exception:
                _log.exception("the callback `notify` failed")

    # Both sides, under the lock.

    def _end(self) -> None:
        """Close the spool, and delete it if all of it has been sent."""
        if self._spool is None:
            return
        self._spool.close()
        if not self._waiting and not self._later:
            self._spool.remove()
            if self._told:
                self._messages.append(f"{self.uri} answers again: all of {self._spool.path} has been sent")

    def _report(self, failure: str) -> None:
        """Say once that the store fails, and once that the disk does too."""
        self._failure = self._failure or failure
        if not self._failure:
            return
        kind, rest = "lost", f"its record is lost unless that answers in time: {self._spool_dir}: {self._unkept}"
        if self._unkept is None:
            kind, rest = "kept", f"all is kept, send it later with `lcml runs --replay {self.spool_path}`"
        if kind not in self._told:
            self._told.add(kind)
            self._messages.append(f"cannot record this run at {self.uri} ({self._failure}). Training goes on; {rest}")


def _now() -> int:
    return time.time_ns() // 1_000_000
