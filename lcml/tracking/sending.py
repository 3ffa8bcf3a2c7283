"""Send the events of a run to a store: at once, for the tracker's worker, or later, from the spool that it left.

Whatever was sent before may be sent again: nothing is doubled.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

from lcml.errors import FormatError, TrackingError
from lcml.files import open_regular, try_lock
from lcml.tracking.address import require_reachable, shown, sqlite_path
from lcml.tracking.database import prepare, require_whole
from lcml.tracking.models import log_native
from lcml.tracking.records import Artifact, Event, Finish, Metrics, RunStart
from lcml.tracking.spool import Spool
from lcml.tracking.store import Store, import_mlflow, translated


class Sender:
    """Sends one run's events, its start first. live: whether the run is under way, so that it is set to RUNNING.

    run_id, experiment: the ids that the store has given, None before it has. Raises what MLflow raises, and
    TrackingError where nobody answers.
    """

    def __init__(self, uri: str, *, live: bool) -> None:
        self.uri, self.live = uri, live
        self.store: Store | None = None
        self.run_id: str | None = None
        self._opened = 0
        self._tried: set[Path] = set()  # spools of others

    @property
    def experiment(self) -> str | None:
        return None if self.store is None else self.store.experiment

    def open(self) -> None:
        """It can send."""

    def send(self, parcel: Sequence[Event]) -> None:
        """Send a parcel."""
        require_reachable(self.uri)
        if self.store is None:
            self.store = Store(self.uri)
        first, run_id = parcel[0], cast(str, self.run_id)
        match first:
            case RunStart():
                self._opened = first.time
                self.run_id = self.store.open_run(first, live=self.live)
            case Metrics():
                self.store.send_metrics(run_id, cast(Sequence[Metrics], parcel))
            case Artifact():
                self.store.send_artifact(run_id, first)
                if first.loader is not None:
                    content = first.content if isinstance(first.content, bytes) else first.content.read_bytes()
                    log_native(self.store, run_id, content, PurePosixPath(first.name).name, first.loader)
            case Finish():
                self.store.close_run(run_id, first, self._opened)

    def care(self, spools: Path) -> bool:
        """Say that the run lives, and send one spool of those that killed processes left; whether there was one."""
        if self.store is not None and self.run_id is not None:
            self.store.beat(self.run_id)
        return next(replay_leftovers(spools, self.uri, self._tried), None) is not None

    def close(self) -> None:
        """Nothing more is to be sent."""


def parcels(journal: Sequence[Event]) -> Iterator[list[Event]]:
    """`journal` in the lots in which they are sent: metrics that follow each other together, all else alone."""
    for is_metrics, group in itertools.groupby(journal, lambda event: isinstance(event, Metrics)):
        events = list(group)
        yield from [events] if is_metrics else ([event] for event in events)


@dataclass(frozen=True)
class Replayed:
    """What was sent of one spool, and the run's status afterwards."""

    spool: Path
    run_id: str
    n_metrics: int
    n_artifacts: int
    status: str


def replay(spool: Path, uri: str | None = None) -> list[Replayed]:
    """Send a spool, or every spool of a directory, to `uri` (by default the address it was meant for); delete it then.

    The run is created if it never was. Nothing is doubled, neither by an interrupted replay that is started again, nor
    where the store had part of it. A run that died before it could finish becomes KILLED. Spools in a directory that
    are still being written are passed over. Raises TrackingError where the store does not answer or does not take
    something (the spool stays), FormatError for a file that is no spool.
    """
    if not spool.is_dir():
        return [replay_file(spool, uri)]
    return [replay_file(path, uri) for path in leftovers(spool)]


def spool_directory(uri: str) -> Path:
    """Where the spools for a store are: beside a sqlite database, else in mlruns/ here."""
    database = sqlite_path(uri)
    return (Path("mlruns") if database is None else database.parent) / "spool"


def leftovers(directory: Path) -> list[Path]:
    """The spools of a directory that nobody writes or sends. One that died before its first line is deleted."""
    found = []
    for path in sorted(directory.glob("*.jsonl")):
        with path.open("rb") as file:
            if not try_lock(file):
                continue
            if file.readline().endswith(b"\n"):
                found.append(path)
            else:
                path.unlink(missing_ok=True)
    return found


def replay_leftovers(directory: Path, uri: str, passed_over: set[Path] | None = None) -> Iterator[Replayed]:
    """Send what killed processes left in `directory` for the store at `uri`, one by one.

    What cannot be sent stays, and joins with all else that was tried those to be passed over.
    """
    tried = set() if passed_over is None else passed_over
    for path in leftovers(directory):
        if path not in tried:
            tried.add(path)
            with contextlib.suppress(FormatError, TrackingError):
                if Spool.read(path).uri == shown(uri):
                    yield replay_file(path, uri)


def replay_file(path: Path, uri: str | None = None) -> Replayed:
    """Send one spool; see `replay`."""
    try:
        file = open_regular(path)
    except OSError as error:
        raise TrackingError(f"cannot read the spool {path}: {error.strerror}; give the path of a .jsonl") from error
    with file:
        if not try_lock(file):
            raise TrackingError(f"{path} is still being written or sent by another process; wait for that to end")
        spool = Spool.read(path)
        uri = uri or spool.uri
        prepare(uri)
        import_mlflow(uri)
        require_whole(uri)
        with translated(uri):
            sent = _send(spool, uri)
    spool.remove()
    return sent


def _send(spool: Spool, uri: str) -> Replayed:
    sender, events = Sender(uri, live=False), [spool.start, *spool.events]
    for parcel in parcels(events):
        sender.send(parcel)
    store, run_id = cast(Store, sender.store), cast(str, sender.run_id)
    if not any(isinstance(event, Finish) for event in events) and store.status(run_id) == "RUNNING":
        last = max(event.time for event in events if not isinstance(event, Artifact))
        sender.send([Finish(last, "KILLED")])
    n_metrics = sum(len(event.values) for event in events if isinstance(event, Metrics))
    n_artifacts = len({event.name for event in events if isinstance(event, Artifact)})
    return Replayed(spool.path, run_id, n_metrics, n_artifacts, store.status(run_id))
