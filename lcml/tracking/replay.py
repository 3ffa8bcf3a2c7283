"""Send what a tracking outage left in a spool."""

from dataclasses import dataclass
from pathlib import Path

from lcml.errors import TrackingError
from lcml.tracking.lock import try_lock
from lcml.tracking.records import Artifact, Finish, Metrics
from lcml.tracking.spool import Spool
from lcml.tracking.store import Store, import_mlflow, prepare, translated


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
    return [replay_file(path, uri) for path in sorted(spool.glob("*.jsonl")) if not _in_use(path)]


def replay_file(path: Path, uri: str | None = None) -> Replayed:
    """Send one spool; see `replay`."""
    spool = Spool.read(path)
    uri = uri or spool.uri
    prepare(uri)
    import_mlflow(uri)
    with path.open("rb") as file:
        if not try_lock(file):
            raise TrackingError(f"{path} is still being written or sent by another process; wait for that to end")
        with translated(uri):
            sent = _send(spool, Store(uri))
    spool.remove()
    return sent


def _send(spool: Spool, store: Store) -> Replayed:
    metrics = [event for event in spool.events if isinstance(event, Metrics)]
    artifacts = {event.name: event for event in spool.events if isinstance(event, Artifact)}
    finish = next((event for event in spool.events if isinstance(event, Finish)), None)
    run_id = store.open_run(spool.start, replayed=True)
    store.send_metrics(run_id, metrics)
    for artifact in artifacts.values():
        store.send_artifact(run_id, artifact)
    if finish is None and store.status(run_id) == "RUNNING":
        finish = Finish(max([spool.start.time, *(event.time for event in metrics)]), "KILLED")
    if finish is not None:
        store.close_run(run_id, finish)
    n_metrics = sum(len(event.values) for event in metrics)
    return Replayed(spool.path, run_id, n_metrics, len(artifacts), store.status(run_id))


def _in_use(path: Path) -> bool:
    with path.open("rb") as file:
        return not try_lock(file)
