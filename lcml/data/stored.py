"""Features that memory may not hold: kept in memory, or in a file that is read piece by piece."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.errors import OutputError
from lcml.inputs.rows import Matrix, StoredMatrix, all_rows

_ENCODED_BYTES = np.dtype(np.float32).itemsize
_LARGE_TEMPORARY = "/var/tmp"  # where systems keep large temporary files; their /tmp may be memory


def fits(shape: tuple[int, ...], dtype: np.dtype[Any], memory: float) -> bool:
    """Whether features take, raw and encoded, at most `memory` bytes."""
    return prod(shape) * (dtype.itemsize + _ENCODED_BYTES) <= memory


def load_if_fits(matrix: StoredMatrix, memory: float) -> Matrix:
    """The matrix in memory where it fits, else as rows in its file."""
    rows = all_rows(matrix)
    return rows[:] if fits(matrix.shape, matrix.dtype, memory) else rows


def gather(blocks: Iterator[NDArray[Any]], shape: tuple[int, int], dtype: np.dtype[Any], memory: float) -> Matrix:
    """The rows of all `blocks`, together a matrix of that shape: in memory where it fits, else in a temporary file
    that is gone when nothing refers to it any more, however the process ends.

    Raises OutputError where there is no room for the file.
    """
    if fits(shape, dtype, memory):
        matrix, first = np.empty(shape, dtype), 0
        for block in blocks:
            matrix[first : first + len(block)] = block
            first += len(block)
        return matrix
    directory, n_bytes = _temporary_directory(), prod(shape) * dtype.itemsize
    with _room_for(n_bytes, directory):
        if shutil.disk_usage(directory).free < n_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115  # the matrix closes it
    stored = StoredMatrix(file, shape, dtype)
    for block in blocks:
        with _room_for(n_bytes, directory):
            file.write(np.ascontiguousarray(block, dtype).data)
            file.flush()
    return all_rows(stored)


@contextmanager
def _room_for(n_bytes: int, directory: Path) -> Iterator[None]:
    """OutputError for what goes wrong with a temporary file of that size."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write {n_bytes / 2**20:,.0f} MB to a temporary file in {directory}: {error.strerror or error}; "
            "make room there, name another directory in TMPDIR, or raise memory_budget"
        ) from error


def _temporary_directory() -> Path:
    if "TMPDIR" not in os.environ and os.access(_LARGE_TEMPORARY, os.W_OK):
        return Path(_LARGE_TEMPORARY)
    return Path(tempfile.gettempdir())
