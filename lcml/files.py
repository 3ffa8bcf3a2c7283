"""Files are written whole or not at all, and only regular ones are read."""

import contextlib
import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

from lcml.errors import OutputError

_UNFINISHED = ".lcml-tmp"
_UNFINISHED_SECONDS = 60.0  # a file in the making is not locked in its first moment


def try_lock(file: IO[bytes]) -> bool:
    """Take the lock on `file` if it is free; closing the file frees it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_regular(path: str | Path) -> BinaryIO:
    """The file, to be read. OSError also for a pipe, which would wait for a writer, and a device, which may not end."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OSError(errno.EINVAL, "it is no regular file; copy what it gives into one", str(path))
    return open(path, "rb")


def check_place(path: str | Path) -> Path:
    """The path, OutputError where what is there is no regular file."""
    path = Path(path)
    if str(path) == "-":
        raise OutputError("cannot write -: expected the name of a file; give one (./- for a file of that name)")
    if os.path.exists(path) and not os.path.isfile(path):  # False too where the directory cannot be looked into
        raise OutputError(f"cannot write {path}: expected a regular file or nothing there; choose another place")
    return path


def escaped(name: str) -> str:
    """A name as UTF-8 text: bytes of a file's name that are none are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


@contextlib.contextmanager
def atomic_writer(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` when the block ends well, and leaves no trace when it does not.

    The bytes are on disk (fsync) before the rename; a symbolic link stays and its target is replaced. OutputError where
    `path` is a device, pipe or directory, its directory cannot be created or written, or the disk is full.
    """
    path = check_place(path)
    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}{_UNFINISHED}")
        file = open(temporary, "x+b")  # noqa: SIM115  # with mode 0o666 less the umask, as any other file is made
        try:
            with contextlib.suppress(OSError):  # of a file system without locks
                try_lock(file)  # for as long as this process lives
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(temporary, place)
        except BaseException:
            with contextlib.suppress(OSError):  # closing writes what is buffered: on a full disk that fails again
                file.close()
            os.unlink(temporary)
            raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; choose another place or free it") from error


def remove_unfinished(directory: Path) -> None:
    """Delete what writers that were killed left in `directory`."""
    for path in directory.glob(f".*{_UNFINISHED}"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if time.time() - path.stat().st_mtime > _UNFINISHED_SECONDS and try_lock(file):
                path.unlink()


def write_atomically(path: str | Path, content: bytes | str) -> None:
    """Write `content` (text as UTF-8) to `path` through `atomic_writer`."""
    with atomic_writer(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
