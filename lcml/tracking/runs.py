"""Ask a tracking store about the runs it has."""

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lcml.errors import TrackingError
from lcml.files import escaped
from lcml.tracking.address import shown, sqlite_path, store_uri
from lcml.tracking.database import is_present, require_whole
from lcml.tracking.processes import is_silent, lives
from lcml.tracking.records import DEFAULT_EXPERIMENT, RunSummary, check_artifact_name, finite_or_inf
from lcml.tracking.store import KEY_TAG, Store, import_mlflow, translated

_RUNS_PER_PAGE = 500
_LAYOUT = "?workflowType=machine_learning"  # MLflow's pages open in that of language models without it
_SHORTEST_PREFIX = 4  # of a run id


def list_runs(
    uri: str | None = None, experiment: str | None = DEFAULT_EXPERIMENT, *, limit: int | None = None
) -> list[RunSummary]:
    """The runs of an experiment (None: of all), newest first, at most `limit`.

    Raises TrackingError where the store or the experiment does not exist or does not answer.
    """
    with opened(uri) as store:
        return list(itertools.islice(_search(store, experiment), limit))


def find_run(name: str, uri: str | None = None, experiment: str | None = None) -> RunSummary:
    """The one run whose id, beginning of the id, lcml key or name is `name`; TrackingError where none or several."""
    uri, name = store_uri(uri), escaped(name)
    runs = list_runs(uri, experiment)
    for matches in (
        [run for run in runs if name in (run.run_id, run.tags.get(KEY_TAG))],
        [run for run in runs if name == run.name],
        [run for run in runs if len(name) >= _SHORTEST_PREFIX and run.run_id.startswith(name)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(run.run_id for run in matches)
            raise TrackingError(
                f"{len(matches)} runs at {shown(uri)} are called {name!r}: {ids}; give one of these ids"
            )
    raise TrackingError(f"no run at {shown(uri)} has the id or name {name!r}; `lcml runs` lists what there is")


def download_artifact(run_id: str, name: str, uri: str | None = None, directory: Path | None = None) -> Path:
    """A copy of one file of a run, directly in `directory` (default: a new temporary one) under its last name.

    TrackingError where the run has no such file.
    """
    check_artifact_name(name)
    with opened(uri) as store:
        found = [file.path for file in store.client.list_artifacts(run_id, name.rpartition("/")[0] or None)]
        if name not in found:
            raise TrackingError(f"run {run_id} has no artifact {name!r}; it has {', '.join(found) or 'none'} there")
        if directory is None:
            directory = Path(tempfile.mkdtemp(prefix="lcml-"))
        directory.mkdir(parents=True, exist_ok=True)
        return Path(store.client.download_artifacts(run_id, name, str(directory)))


def close_stale_runs(
    uri: str | None = None, experiment: str | None = DEFAULT_EXPERIMENT, *, everything: bool = False
) -> list[RunSummary]:
    """Set to KILLED the RUNNING runs that are no more: their process, started on this host, has died, or nothing was
    heard of them for SILENT_SECONDS; the runs as they were.

    everything: also those that never say that they live (of an older lcml, or of another program).
    """
    with opened(uri) as store:
        running = _search(store, experiment, "attributes.status = 'RUNNING'")
        known = [(run, lives(run.tags)) for run in running]
        stale = [
            run
            for run, alive in known
            if alive is False or (alive is None and is_silent(run.tags, unless_known=everything))
        ]
        for run in stale:
            store.client.set_terminated(run.run_id, "KILLED")
        return stale


def ui_hint(uri: str, experiment_id: str | None) -> str:
    """What to do to see an experiment's runs in MLflow's pages: an address, or the command that serves one."""
    page = "" if experiment_id is None else f"#/experiments/{experiment_id}{_LAYOUT}"
    if uri.startswith(("http://", "https://")):
        return f"{shown(uri).rstrip('/')}/{page}"
    return f"mlflow ui --backend-store-uri {shown(uri)}"


@contextmanager
def opened(uri: str | None = None) -> Iterator[Store]:
    """The store at `uri` (None: see `store_uri`), which must be there. Whatever fails is a TrackingError."""
    uri = store_uri(uri)
    path = sqlite_path(uri)
    if path is not None and not is_present(path):
        raise TrackingError(f"{path} does not exist: no run has been recorded there; train first, or name another")
    import_mlflow(uri)
    require_whole(uri)
    with translated(uri):
        yield Store(uri)


def _search(store: Store, experiment: str | None, condition: str = "") -> Iterator[RunSummary]:
    names = {found.experiment_id: found.name for found in store.client.search_experiments()}
    chosen = [number for number, name in names.items() if experiment in (None, name)]
    chosen = chosen or [number for number in names if number == experiment]
    if not chosen:
        found = ", ".join(sorted(names.values()))
        raise TrackingError(f"no experiment {experiment!r} at {shown(store.uri)}; it has {found}")
    token: str | None = ""
    while token is not None:
        page = store.client.search_runs(
            chosen,
            condition,
            max_results=_RUNS_PER_PAGE,
            order_by=["attributes.start_time DESC"],
            page_token=token or None,
        )
        for run in page:
            yield _summary(run, names[run.info.experiment_id])
        token = page.token or None


def _summary(run: Any, experiment: str) -> RunSummary:
    info, data = run.info, run.data
    ended = info.end_time if info.status != "RUNNING" else None
    return RunSummary(
        run_id=info.run_id,
        name=info.run_name,
        experiment=experiment,
        status=info.status,
        started=_moment(info.start_time),
        seconds=None if ended is None else (ended - info.start_time) / 1000,
        params=dict(data.params),
        metrics={name: finite_or_inf(value) for name, value in data.metrics.items()},
        tags=dict(data.tags),
    )


def _moment(milliseconds: int) -> datetime:
    """The time, or the first or last one that Python knows."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.max if milliseconds > 0 else datetime.min).replace(tzinfo=UTC)
