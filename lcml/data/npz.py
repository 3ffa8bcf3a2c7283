"""NumPy .npz files: X and y (or features and labels), or X_train, y_train, X_test, y_test."""

import lzma
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.data.idx import GZIP_MAX_RATIO as MAX_RATIO
from lcml.data.npy import read_header
from lcml.data.raw import RawSet, check_size, default_names, listed, rows_of_pixels, unlabelled
from lcml.errors import DataError, FormatError

WHOLE = ("X", "y"), ("x", "y"), ("features", "labels")
DIVIDED = ("X_train", "y_train", "X_test", "y_test"), ("x_train", "y_train", "x_test", "y_test")


def read_npz(path: Path, require_labels: bool = True) -> RawSet:
    """The set in an .npz file; nothing is unpickled. Features may be a matrix or images (n, height, width).

    Raises DataError where the arrays have other names or shapes, FormatError where the file is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            present = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
            needed = [names if require_labels else names[:1] for names in WHOLE]
            found: list[tuple[str, ...]] = [names for names in (*DIVIDED, *needed) if present.issuperset(names)]
            if len(found) != 1:
                raise DataError(
                    f"{path} holds the arrays {listed(sorted(present))}; expected X and y, features and labels, "
                    "or X_train, y_train, X_test and y_test, and only one of these"
                )
            shapes = [_shape(archive, name, path) for name in found[0]]
            for rows, labels in zip(shapes[::2], shapes[1::2], strict=False):
                check_size(rows, str(path))
                if labels != rows[:1]:
                    raise unlabelled(str(path), rows[0], "examples", labels)
            arrays = [_array(archive, name, path) for name in found[0]]
    except (FileNotFoundError, PermissionError) as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, OverflowError) as error:
        raise FormatError(f"not a readable .npz file ({error}); write it again with numpy.savez", path) from error
    features, image_shape = rows_of_pixels(arrays[0], f"{path}, array {found[0][0]}")
    given = features, arrays[1] if len(arrays) > 1 else None
    names = default_names(features.shape[1], image_shape)
    test = (rows_of_pixels(arrays[2], f"{path}, array {found[0][2]}")[0], arrays[3]) if len(arrays) == 4 else ()
    return RawSet(path.stem, str(path), *given, names, image_shape, *test)


def _shape(archive: zipfile.ZipFile, name: str, path: Path) -> tuple[int, ...]:
    """The shape of an array, whose header must agree with the stored size; no memory is taken for it yet."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as file, _header_of(name, path):
        shape, _, dtype = read_header(file, info.file_size)
        if info.file_size > MAX_RATIO * (info.compress_size + 1) or dtype.hasobject:
            what = "Object arrays cannot be loaded" if dtype.hasobject else f"{info.file_size} bytes cannot be in it"
            raise ValueError(what)
    return shape if shape else (0,)


def _array(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as file, _header_of(name, path):
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


@contextmanager
def _header_of(name: str, path: Path) -> Iterator[None]:
    """FormatError for what is wrong with an array."""
    try:
        with warnings.catch_warnings(action="ignore"):  # headers as Python 2 and numpy 1 wrote them
            yield
    except (ValueError, MemoryError) as error:
        raise FormatError(f"array {name}: {error}; save numbers or text of fixed width", path) from error
