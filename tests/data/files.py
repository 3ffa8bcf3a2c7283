"""Files that hold data sets, written from the formats' descriptions."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.data import Examples
from lcml.inputs.rows import check_features

TABLE = "a,b,label\n" + "".join(f"{i},{i / 2},{'yes' if i % 2 else 'no'}\n" for i in range(20))


def idx_bytes(array: NDArray[Any]) -> bytes:
    """The array as an IDX file of unsigned bytes, written from the format's description."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def write_idx_set(folder: Path, n_train: int = 40, n_test: int = 10, pack: bool = False) -> dict[str, NDArray[Any]]:
    """A small set of 3 x 2 images in IDX files, with labels 0 and 1 by turns."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    arrays: dict[str, NDArray[Any]] = {}
    for part, n in (("train", n_train), ("t10k", n_test)):
        if n:
            arrays[f"{part}-images-idx3-ubyte"] = rng.integers(0, 256, (n, 3, 2)).astype(np.uint8)
            arrays[f"{part}-labels-idx1-ubyte"] = np.arange(n) % 2
    for name, array in arrays.items():
        content = idx_bytes(array)
        (folder / (name + ".gz" * pack)).write_bytes(gzip.compress(content) if pack else content)
    return arrays


def write(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def numbers_of(examples: Examples) -> NDArray[Any]:
    """The features of a table of numbers without gaps."""
    found: NDArray[Any] = np.asarray(check_features(examples.features))
    return found
