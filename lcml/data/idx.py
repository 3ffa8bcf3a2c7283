"""IDX files, the format of the MNIST sets: a big-endian header, then the values.

bytes 0-1   0, 0                bytes 4..   one uint32 per dimension
byte 2      type of the values  then        the values, last dimension fastest
byte 3      number of dimensions
"""

import gzip
import io
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.data.raw import RawSet, default_names, listed, rows_of_pixels
from lcml.errors import DataError, FormatError

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MAX_DIMENSIONS = 3
GZIP_MAX_RATIO = 1032
"""Deflate expands no byte to more than so many: what a header promises is checked before memory is taken."""
READ_BYTES = 1 << 20


def read_idx(path: str | Path) -> NDArray[Any]:
    """The array in an IDX file, gzipped or not (told by content), in native byte order.

    Raises FormatError where the file is no IDX file or its length is not what its header says (memory is bounded by
    the file's own size), DataError where it cannot be read.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            limit = path.stat().st_size * (GZIP_MAX_RATIO if zipped else 1)
            return _read(gzip.GzipFile(fileobj=file) if zipped else file, path, limit)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"damaged gzip data ({error}); fetch the file again", path) from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def read_idx_directory(path: str | Path, name: str | None = None) -> RawSet:
    """The set in a directory of IDX files: train-images, train-labels and, where present, t10k-images, t10k-labels.

    File names as published: train-images-idx3-ubyte, with or without .gz, `-` or `.` before idx. An unzipped file is
    preferred. Without t10k files the set has no test examples of its own.
    """
    path = Path(path)
    files = {part: _find(path, part) for part in ("train-images", "train-labels", "t10k-images", "t10k-labels")}
    has_test = files["t10k-images"] is not None or files["t10k-labels"] is not None
    missing = [part for part, file in files.items() if file is None and (has_test or part.startswith("train"))]
    if missing:
        raise DataError(
            f"{path} is no directory of IDX files: it lacks {listed(missing)}; expected names such as "
            "train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz"
        )
    arrays = {part: read_idx(file) for part, file in files.items() if file is not None}
    features, image_shape = rows_of_pixels(arrays["train-images"], str(files["train-images"]))
    test_features = None
    if has_test:
        test_features, test_shape = rows_of_pixels(arrays["t10k-images"], str(files["t10k-images"]))
        if test_shape != image_shape:
            raise DataError(f"{path}: training images are {image_shape} but test images {test_shape}; give one size")
    return RawSet(
        name=name or path.resolve().name,
        source=str(path),
        features=features,
        labels=arrays["train-labels"],
        feature_names=default_names(features.shape[1], image_shape),
        image_shape=image_shape,
        test_features=test_features,
        test_labels=arrays.get("t10k-labels"),
    )


def _find(directory: Path, part: str) -> Path | None:
    """The file of one part of the set; an unzipped one sorts before its .gz."""
    return min((file for mark in "-." for file in directory.glob(f"{part}{mark}idx*") if file.is_file()), default=None)


def _read(stream: io.BufferedIOBase, path: Path, limit: int) -> NDArray[Any]:
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
    n_bytes = math.prod(shape) * dtype.itemsize
    promise = f"its header promises {n_bytes} bytes of values (shape {shape})"
    if n_bytes > limit:
        raise FormatError(f"{promise}, more than the file can hold; it is damaged or truncated", path)
    array = np.empty(shape, dtype)
    target = array.reshape(-1).view(np.uint8).data
    done = 0
    while done < n_bytes:
        n_read = stream.readinto(target[done : done + READ_BYTES])
        if not n_read:
            raise FormatError(f"{promise}, but it ends after {done}; fetch the file again", path)
        done += n_read
    if stream.read(1):
        raise FormatError(f"{promise}, but more follow; it is damaged", path)
    return array.astype(dtype.newbyteorder("="), copy=False)
