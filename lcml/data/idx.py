"""IDX files, the format of the MNIST sets: a big-endian header, then the values.

bytes 0-1   0, 0                bytes 4..   one uint32 per dimension
byte 2      type of the values  then        the values, last dimension fastest
byte 3      number of dimensions
"""

import gzip
import io
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lcml.data.raw import RawSet, check_size, default_names, listed, rows_of_pixels, unlabelled
from lcml.data.stored import fits
from lcml.errors import DataError, FormatError
from lcml.inputs.rows import Matrix, StoredMatrix, all_rows

_Out = TypeVar("_Out")

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MAX_DIMENSIONS = 3
GZIP_MAX_RATIO = 1032
"""Deflate expands no byte to more than so many: what a header promises is checked before memory is taken."""
READ_BYTES = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"


def read_idx(path: str | Path) -> NDArray[Any]:
    """The array in an IDX file, gzipped or not (told by content), in native byte order.

    Raises FormatError where the file is no IDX file or its length is not what its header says (memory is bounded by
    the file's own size), DataError where it cannot be read.
    """
    return _opened(Path(path), _read)


def read_shape(path: str | Path) -> tuple[int, ...]:
    """The shape of the array in an IDX file, from its header alone; errors as `read_idx`."""
    return _opened(Path(path), lambda stream, path, limit: _header(stream, path, limit)[0])


def _opened(path: Path, read: Callable[[io.BufferedIOBase, Path, int], _Out]) -> _Out:
    """What `read` makes of the bytes of a file, gzipped or not, its path, and the most bytes that it can hold."""
    try:
        with path.open("rb") as file:
            zipped = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            limit = path.stat().st_size * (GZIP_MAX_RATIO if zipped else 1)
            return read(gzip.GzipFile(fileobj=file) if zipped else file, path, limit)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"damaged gzip data ({error}); fetch the file again", path) from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def read_images(path: Path, memory: float) -> tuple[Matrix, tuple[int, int] | None]:
    """Images in an IDX file as rows of pixels, and their shape; errors as `read_idx`.

    Those of a file that is not gzipped and that take, raw and encoded, more than `memory` bytes stay in it.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(GZIP_MAGIC)) != GZIP_MAGIC:
                file.seek(0)
                size = path.stat().st_size
                shape, dtype = _header(file, path, size)
                is_whole = file.tell() + math.prod(shape) * dtype.itemsize == size
                if is_whole and len(shape) > 1 and not fits(shape, dtype, memory):
                    matrix = StoredMatrix(path.open("rb"), (shape[0], math.prod(shape[1:])), dtype, file.tell())
                    return all_rows(matrix), (shape[1], shape[2]) if len(shape) == 3 else None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    return rows_of_pixels(read_idx(path), str(path))


def read_idx_directory(path: str | Path, memory: float, name: str | None = None) -> RawSet:
    """The set in a directory of IDX files: train-images, train-labels and, where present, t10k-images, t10k-labels.

    File names as published: train-images-idx3-ubyte, with or without .gz, `-` or `.` before idx. An unzipped file is
    preferred; where its images take, raw and encoded, more than `memory` bytes, they stay there. Without t10k files the
    set has no test examples of its own.
    """
    path = Path(path)
    files = {part: _find(path, part) for part in ("train-images", "train-labels", "t10k-images", "t10k-labels")}
    has_test = files["t10k-images"] is not None or files["t10k-labels"] is not None
    missing = [part for part, file in files.items() if file is None and (has_test or part.startswith("train"))]
    if missing:
        raise DataError(
            f"{path} is no directory of IDX files: it lacks {listed(missing)}; expected names such as "
            "train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz, or else features.npy and labels.npy"
        )
    for part, what in (("train", "examples"), ("t10k", "test examples")):
        shapes = [read_shape(file) for kind in ("images", "labels") if (file := files[f"{part}-{kind}"])]
        if shapes:
            check_size(shapes[0], str(path))
            if shapes[1] != shapes[0][:1]:
                raise unlabelled(str(path), shapes[0][0], what, shapes[1])
    images = {part: read_images(file, memory) for part, file in files.items() if file and part.endswith("images")}
    labels = {part: read_idx(file) for part, file in files.items() if file and part.endswith("labels")}
    features, image_shape = images["train-images"]
    test_features, test_shape = images.get("t10k-images", (None, image_shape))
    if test_shape != image_shape:
        raise DataError(f"{path}: training images are {image_shape} but test images {test_shape}; give one size")
    name, names = name or path.resolve().name, default_names(features.shape[1], image_shape)
    test = test_features, labels.get("t10k-labels")
    return RawSet(name, str(path), features, labels["train-labels"], names, image_shape, *test)


def _find(directory: Path, part: str) -> Path | None:
    """The file of one part of the set; an unzipped one sorts before its .gz."""
    return min((file for mark in "-." for file in directory.glob(f"{part}{mark}idx*") if file.is_file()), default=None)


def _read(stream: io.BufferedIOBase, path: Path, limit: int) -> NDArray[Any]:
    shape, dtype = _header(stream, path, limit)
    array, promise, done = np.empty(shape, dtype), _promise(shape, dtype), 0
    target = array.reshape(-1).view(np.uint8).data
    while done < array.nbytes:
        n_read = stream.readinto(target[done : done + READ_BYTES])
        if not n_read:
            raise FormatError(f"{promise}, but it ends after {done}; fetch the file again", path)
        done += n_read
    if stream.read(1):
        raise FormatError(f"{promise}, but more follow; it is damaged", path)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _header(stream: io.BufferedIOBase, path: Path, limit: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of the values that follow, of no more than `limit` bytes."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in DTYPES or not 1 <= magic[3] <= MAX_DIMENSIONS:
        raise FormatError(
            f"not an IDX file: it starts with {magic!r}; expected 0, 0, a type of values "
            f"({listed([f'0x{code:02x}' for code in DTYPES])}) and 1 to {MAX_DIMENSIONS} dimensions",
            path,
        )
    dimensions = stream.read(4 * magic[3])
    if len(dimensions) < 4 * magic[3]:
        raise FormatError("truncated in its header; fetch the file again", path)
    shape = tuple(int(size) for size in np.frombuffer(dimensions, ">u4"))
    dtype = np.dtype(DTYPES[magic[2]])
    if math.prod(shape) * dtype.itemsize > limit:
        raise FormatError(f"{_promise(shape, dtype)}, more than the file can hold; it is damaged or truncated", path)
    return shape, dtype


def _promise(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    return f"its header promises {math.prod(shape) * dtype.itemsize} bytes of values (shape {shape})"
