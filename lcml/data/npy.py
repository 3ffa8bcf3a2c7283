"""Directories of two arrays, whose features may exceed memory.

features.npy   a matrix (n, d) or images (n, height, width), row by row
labels.npy     (n,)
"""

import math
import tokenize
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lcml.data.raw import RawSet, check_size, default_names
from lcml.data.stored import load_if_fits
from lcml.errors import DataError, FormatError
from lcml.files import open_regular
from lcml.inputs.rows import Matrix, StoredMatrix

FEATURES, LABELS = "features.npy", "labels.npy"
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npy_directory(path: Path, memory: float, require_labels: bool = True) -> RawSet:
    """The set in such a directory; features that take, raw and encoded, more than `memory` bytes stay in their file.

    Raises DataError for a missing file or another shape, FormatError for a damaged one.
    """
    features, image_shape = _features(path / FEATURES, memory)
    labels = _labels(path / LABELS) if require_labels else None
    names = default_names(features.shape[1], image_shape)
    return RawSet(path.resolve().name, str(path), features, labels, names, image_shape)


def read_header(file: Any, n_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of the array in an .npy file of `n_bytes`; the file stands at its
    values. Raises ValueError where the header is none or promises more or less than the file holds."""
    version = np.lib.format.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"its format version is {version}")
    try:
        shape, by_columns, dtype = HEADERS[version](file)
    except (RecursionError, MemoryError, SyntaxError, TypeError, tokenize.TokenError) as error:
        raise ValueError(f"its header cannot be read ({type(error).__name__})") from error
    is_whole = dtype.hasobject or file.tell() + math.prod(shape) * dtype.itemsize == n_bytes
    if min(shape, default=0) < 0 or not dtype.itemsize or not is_whole:
        raise ValueError(f"its header promises shape {shape} of type {dtype}, which is not its size")
    return shape, by_columns, dtype


def _features(path: Path, memory: float) -> tuple[Matrix, tuple[int, int] | None]:
    with _open(path) as file, _damage_of(path):
        shape, by_columns, dtype = read_header(file, path.stat().st_size)
        offset = file.tell()
    if by_columns or len(shape) not in (2, 3) or dtype.kind not in "buif":
        order = ", by columns" if by_columns else ""
        raise DataError(
            f"{path}: expected numbers as a matrix (n, d) or images (n, height, width), row by row; found shape "
            f"{shape} of type {dtype}{order}: save it with numpy.save(path, numpy.ascontiguousarray(features))"
        )
    check_size(shape, str(path))
    matrix = StoredMatrix(_open(path), (shape[0], math.prod(shape[1:])), dtype, offset)
    return load_if_fits(matrix, memory), (shape[1], shape[2]) if len(shape) == 3 else None


def _labels(path: Path) -> NDArray[Any]:
    with _open(path) as file, _damage_of(path):
        read_header(file, path.stat().st_size)
        file.seek(0)
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _open(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}; a directory of arrays has {FEATURES} (n, d) and {LABELS} (n,)"
        ) from error


@contextmanager
def _damage_of(path: Path) -> Iterator[None]:
    """FormatError for what is wrong with the file."""
    try:
        with warnings.catch_warnings(action="ignore"):  # headers as Python 2 and numpy 1 wrote them
            yield
    except ValueError as error:
        raise FormatError(f"not a readable .npy file ({error}); write it again with numpy.save", path) from error
