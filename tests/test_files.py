"""Files that appear whole or not at all, with the mode that the umask gives them; what killed writers leave."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcml.errors import OutputError
from lcml.files import atomic_writer, remove_unfinished, write_atomically

KILLED = """
import os, sys
from lcml.files import atomic_writer
with atomic_writer(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os._exit(1)
"""
LONG_AGO = time.time() - 3600


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path, strict_umask: None) -> None:
    write_atomically(tmp_path / "model", b"content")
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o640


def test_the_umask_of_the_process_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread that creates a file at that moment would get the wrong mode."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask of the whole process was changed"))
    with atomic_writer(tmp_path / "model") as file:
        file.write(b"content")
    assert (tmp_path / "model").read_bytes() == b"content"


def test_what_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "model"
    place.write_bytes(b"old")

    def write() -> None:
        with atomic_writer(place) as file:
            file.write(b"new")
            raise KeyError

    with pytest.raises(KeyError):
        write()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("model", b"old")]


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    place = tmp_path / "model"
    with atomic_writer(place) as first, atomic_writer(place) as second:
        first.write(b"first")
        second.write(b"second")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert place.read_bytes() == b"first"  # the outer block ends last


def test_a_directory_is_no_place_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="expected a regular file"):
        write_atomically(tmp_path, b"content")


def test_a_place_that_cannot_be_taken_leaves_nothing_beside_it(tmp_path: Path) -> None:
    def write() -> None:
        with atomic_writer(tmp_path / "model") as file:
            file.write(b"new")
            (tmp_path / "model").mkdir()

    with pytest.raises(OutputError, match="cannot write"):
        write()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with pytest.raises(OutputError, match=r"cannot write .*File name too long"):
        write_atomically(tmp_path / ("a" * 300), b"content")


def test_a_dash_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="cannot write -: expected the name of a file"):
        write_atomically("-", b"content")
    assert not list(tmp_path.iterdir())


def test_what_a_killed_writer_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "dead.lcml")], check=False)
    (dead,) = tmp_path.iterdir()
    (tmp_path / ".mine.lcml-tmp.txt").touch()
    remove_unfinished(tmp_path)
    assert dead.exists()  # perhaps only just begun, and not locked yet
    with atomic_writer(tmp_path / "alive.lcml") as file:
        file.write(b"whole")
        for path in tmp_path.iterdir():
            os.utime(path, (LONG_AGO, LONG_AGO))
        remove_unfinished(tmp_path)
        assert not dead.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"alive.lcml", ".mine.lcml-tmp.txt"}
    assert (tmp_path / "alive.lcml").read_bytes() == b"whole"
