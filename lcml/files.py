"""Files are written whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lcml.errors import OutputError


@contextlib.contextmanager
def atomic_writer(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` when the block ends well, and leaves no trace when it does not.

    The bytes are on disk (fsync) before the rename; a symbolic link stays and its target is replaced. Raises
    OutputError where `path` is a device, pipe or directory, its directory cannot be created or written, or the disk is
    full.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OutputError(f"cannot write {path}: expected a regular file or nothing there; choose another place")
    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        with open(temporary, "x+b") as file:  # created with mode 0o666 less the umask, as any other file is
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                with contextlib.suppress(OSError):  # closing writes what is buffered: on a full disk that fails again
                    file.close()
                os.unlink(temporary)
                raise
        os.replace(temporary, place)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; choose another place or free it") from error


def write_atomically(path: str | Path, content: bytes | str) -> None:
    """Write `content` (text as UTF-8) to `path` through `atomic_writer`."""
    with atomic_writer(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
