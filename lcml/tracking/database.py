"""A store's sqlite database: made whole or not at all, one process at a time, and known when it is half made."""

import contextlib
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from lcml.errors import OutputError, TrackingError
from lcml.files import open_regular, try_lock
from lcml.tracking.address import check_uri, sqlite_path

LOCK_SECONDS = 120.0
_POLL_SECONDS = 0.05
_MAGIC = b"SQLite format 3\0"

# Of a migration: its own name, and those of the ones that it follows (none, one or a tuple).
_NAME = re.compile(r"""["'](\w+)["']""")
_REVISION = re.compile(r"""^revision\b.*=\s*["'](\w+)["']""", re.MULTILINE)
_FOLLOWS = re.compile(r"^down_revision\b.*=(.*)$", re.MULTILINE)


def prepare(uri: str) -> None:
    """Make the directory of a sqlite database; OutputError or TrackingError where it cannot be one."""
    check_uri(uri)
    path = sqlite_path(uri)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        present = is_present(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; give another --tracking-uri") from error
    if not os.access(path if present else path.parent, os.W_OK):
        raise OutputError(f"cannot write {path}: permission denied; give another --tracking-uri")


def is_present(path: Path) -> bool:
    """Whether `path` is a database; False where nothing is, TrackingError where something else is."""
    if not path.exists():
        return False
    with open_regular(path) as file:
        head = file.read(len(_MAGIC))
    if head and head != _MAGIC:
        raise TrackingError(f"{path} is not a sqlite database; give another --tracking-uri or move the file away")
    return bool(head)


@contextlib.contextmanager
def alone(uri: str) -> Iterator[None]:
    """Keep other processes from opening the sqlite database of `uri` (other stores: nothing), made first if need be.

    It grows by tens of migrations, of which none is atomic, so it is made beside its place and renamed when whole.
    """
    path = sqlite_path(uri)
    if path is None:
        yield
        return
    with _locked(path.with_name(f".{path.name}.lock"), LOCK_SECONDS):
        if not is_present(path):
            _make(path, path.with_name(f".{path.name}.new"))
        yield


def require_whole(uri: str) -> None:
    """TrackingError for a sqlite database that is half made, or of another version of MLflow."""
    path = sqlite_path(uri)
    if path is None or not is_present(path):
        return
    found, n_runs = _look(path)
    expected = _latest_revision()
    if expected is None or found == expected:
        return
    if n_runs == 0:
        raise TrackingError(f"{path} holds no run and is half made: its making was interrupted; delete it and go on")
    raise TrackingError(
        f"{path} is of another version of MLflow (its tables are of {found}, not {expected}): copy it, then run "
        f"`mlflow db upgrade {uri}`, or install the newer MLflow"
    )


def _make(path: Path, new: Path) -> None:
    from mlflow.store.db.utils import _initialize_tables, create_sqlalchemy_engine

    for old in new.parent.glob(f"{new.name}*"):  # of a process that died; nobody else is here
        old.unlink()
    engine = create_sqlalchemy_engine(f"sqlite:///{new}")
    try:
        _initialize_tables(engine)
        engine.dispose()
        os.replace(new, path)
    except BaseException:
        engine.dispose()
        new.unlink(missing_ok=True)
        raise


def _latest_revision() -> str | None:
    """The version of the tables that the installed MLflow makes, read off its migrations without importing it: the one
    that no other follows. None where that cannot be told: then MLflow says so itself, later.
    """
    mlflow = find_spec("mlflow")
    text = "".join(
        file.read_text(encoding="utf-8")
        for place in (mlflow.submodule_search_locations if mlflow else None) or ()
        for file in Path(place, "store/db_migrations/versions").glob("*.py")
    )
    followed = {name for line in _FOLLOWS.findall(text) for name in _NAME.findall(line)}
    latest = set(_REVISION.findall(text)) - followed
    return latest.pop() if len(latest) == 1 else None


def _look(path: Path) -> tuple[str | None, int]:
    """The version of the tables (None: there is none), and how many runs they hold."""
    with contextlib.closing(sqlite3.connect(path)) as connection:

        def first(query: str) -> object:
            try:
                return next(iter(connection.execute(query)), (None,))[0]
            except sqlite3.DatabaseError:  # no such table
                return None

        version = first("select version_num from alembic_version")
        return None if version is None else str(version), int(str(first("select count(*) from runs") or 0))


@contextlib.contextmanager
def _locked(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock file `path` (it stays behind, empty); TrackingError after `seconds` of waiting."""
    deadline = time.monotonic() + seconds
    try:
        file = path.open("ab")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another place or free it") from error
    with file:
        while not try_lock(file):
            if time.monotonic() > deadline:
                raise TrackingError(f"{path} has been locked by another process for {seconds:.0f} s; end that process")
            time.sleep(_POLL_SECONDS)
        yield
