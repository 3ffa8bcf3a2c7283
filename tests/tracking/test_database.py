"""The making of a database: out of room, or left half made by another program; tests/attacks kills it."""

import shutil
from pathlib import Path

import pytest

from lcml.errors import TrackingError
from lcml.tracking import MlflowTracker, list_runs
from tests.forked import Forked
from tests.tracking.stores import DATA, address, change, record, rows

FULL = f"""
import resource, signal, sys
from lcml.tracking import DatasetRecord, MlflowTracker
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
tracker = MlflowTracker(sys.argv[1], notify=print)
tracker.start("run", {{}}, {{}}, {DATA!r})
for step in range(5000):
    tracker.metrics({{"loss": 0.5}}, step)
tracker.finish("FINISHED")
"""


@pytest.mark.parametrize("size", [100_000, 800_000])
def test_a_disk_without_room_for_the_database_is_told_in_a_sentence(tmp_path: Path, size: int) -> None:
    path = tmp_path / "mlflow.db"
    process = Forked("-c", FULL, address(path), str(size))
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.startswith(f"cannot record this run at {address(path)} (")
    assert not list(tmp_path.glob(".mlflow.db.new*"))
    assert not path.exists()


def test_a_full_disk_in_the_middle_of_a_run_is_told_in_a_sentence(database: Path) -> None:
    process = Forked("-c", FULL, address(database), str(database.stat().st_size))
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.startswith("cannot record this run")


def test_a_half_made_database_is_known(tmp_path: Path, empty_database: Path) -> None:
    path = tmp_path / "mlflow.db"
    uri = address(path)
    change(path, "create table experiments (experiment_id integer)")
    for attempt in (lambda: MlflowTracker(uri).start("run", {}, {}, DATA), lambda: list_runs(uri)):
        with pytest.raises(TrackingError, match=r"mlflow\.db holds no run and is half made: .* delete it and go on"):
            attempt()
    shutil.copy(empty_database, path)
    change(path, "update alembic_version set version_num = 'abc'")
    with pytest.raises(TrackingError, match=r"tables are of abc, not .*run `mlflow db upgrade sqlite:///"):
        list_runs(uri)


@pytest.mark.unabridged
def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    path.touch()
    record(MlflowTracker(address(path)))
    assert rows(path, "select status from runs") == [("FINISHED",)]


def test_a_file_that_is_no_database_gets_no_lock_beside_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but longer than its magic")
    with pytest.raises(TrackingError, match="is not a sqlite database"):
        list_runs(address(tmp_path / "notes.txt"))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
