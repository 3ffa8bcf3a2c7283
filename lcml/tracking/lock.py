"""A lock between processes, held on an open file and freed by the system when its holder dies."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lcml.errors import OutputError, TrackingError

_POLL_SECONDS = 0.05

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30

    def try_lock(file: IO[bytes]) -> bool:
        """Take the lock on `file` if it is free; closing the file frees it."""
        place = file.tell()
        file.seek(_FAR)  # what is locked here nobody else can read
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            file.seek(place)
        return True
else:
    import fcntl

    def try_lock(file: IO[bytes]) -> bool:
        """Take the lock on `file` if it is free; closing the file frees it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextlib.contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
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
