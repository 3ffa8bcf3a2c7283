"""IDX and NumPy files: what is read, and what is refused."""

import gzip
import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lcml.data import UNLABELLED, load_examples, load_splits
from lcml.data.idx import read_idx
from lcml.errors import DataError, FormatError
from tests.data.files import idx_bytes, write, write_idx_set


def test_idx_values_wider_than_a_byte_are_big_endian(tmp_path: Path) -> None:
    path = write(tmp_path, b"\0\0\x0b\x02\0\0\0\x01\0\0\0\x02\x01\x00\xff\xfe", "file")
    assert read_idx(path).tolist() == [[256, -2]]
    assert read_idx(path).dtype == np.dtype("=i2")


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file"),
        (b"\x89PNG\r\n", "not an IDX file"),
        (b"\0\0\x07\x01\0\0\0\x01\x01", "not an IDX file"),
        (b"\0\0\x08\x09" + b"\0\0\0\x01" * 9 + b"\x01", "not an IDX file"),
        (b"\0\0\x08\x02\0\0\0\x01", "truncated in its header"),
        (b"\0\0\x08\x01\0\0\0\x04\x01\x02\x03", "promises 4 bytes"),
        (b"\0\0\x08\x01\0\0\0\x02\x01\x02\x03", "but more follow"),
        (b"\0\0\x0e\x03" + b"\xff" * 12, "more than the file can hold"),
    ],
)
def test_damaged_idx_files(tmp_path: Path, content: bytes, message: str, zipped: bool) -> None:
    path = write(tmp_path, gzip.compress(content) if zipped else content, "damaged-idx1-ubyte")
    with pytest.raises(FormatError, match=f"damaged-idx1-ubyte: .*{message}"):
        read_idx(path)


def test_damaged_gzip_data(tmp_path: Path) -> None:
    content = gzip.compress(idx_bytes(np.random.default_rng(0).integers(0, 256, (10, 10))))
    for damaged in (content[:-20], content[:40] + b"\xff\xff\xff" + content[43:]):
        with pytest.raises(FormatError, match="damaged gzip data"):
            read_idx(write(tmp_path, damaged, "file.gz"))


def test_idx_directories(tmp_path: Path) -> None:
    write_idx_set(tmp_path / "own", n_test=0)
    splits = load_splits(tmp_path / "own")
    assert (splits.name, len(splits.train), len(splits.valid), len(splits.test)) == ("own", 29, 3, 8)
    assert len(load_examples(tmp_path / "own")) == 40
    with pytest.raises(DataError, match="lacks train-images, train-labels"):
        load_splits(tmp_path)
    write_idx_set(tmp_path / "cut")
    (tmp_path / "cut" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="lacks t10k-labels"):
        load_splits(tmp_path / "cut")
    write(tmp_path / "own", idx_bytes(np.arange(39) % 2), "train-labels-idx1-ubyte")
    with pytest.raises(DataError, match=r"40 examples but labels of shape \(39,\)"):
        load_splits(tmp_path / "own")


def test_npz_of_images_is_read_and_given_whole_to_a_model(tmp_path: Path) -> None:
    images, labels = np.arange(120, dtype=np.uint8).reshape(20, 3, 2), np.arange(20) % 2
    path = tmp_path / "images.npz"
    np.savez_compressed(path, X=images, y=labels)
    splits = load_splits(path)
    assert (splits.name, splits.image_shape, splits.classes) == ("images", (3, 2), (0, 1))
    examples = load_examples(path, classes=(0, 1, 2))
    assert examples.features[:].tolist() == images.reshape(20, 6).tolist()
    assert examples.labels.tolist() == labels.tolist()


def test_npz_keeps_its_own_test_examples(tmp_path: Path) -> None:
    path = tmp_path / "divided.npz"
    x = np.arange(40.0).reshape(20, 2)
    np.savez(path, x_train=x, y_train=np.arange(20) % 2, x_test=-x[:3], y_test=np.array([1, 1, 1]))
    assert load_splits(path).test.features[:].tolist() == (-x[:3]).tolist()
    assert load_examples(path).labels.tolist() == [1, 1, 1]
    assert len(load_examples(path, split="train")) == 18
    np.savez(path, x_train=x, y_train=np.arange(20) % 2, x_test=-x[:3], y_test=np.array([1, 2, 1]))
    with pytest.raises(DataError, match="test examples: row 1 has the label 2, which was not in training"):
        load_splits(path)


def test_npz_without_labels_is_enough_to_predict(tmp_path: Path) -> None:
    path = tmp_path / "bare.npz"
    np.savez(path, features=np.eye(3))
    assert load_examples(path, require_labels=False).labels.tolist() == [UNLABELLED] * 3
    with pytest.raises(DataError, match="holds the arrays features; expected X and y"):
        load_splits(path)


def test_damaged_npz_files(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    np.savez(path, X=np.array([["a", None]], object), y=np.array([1]))
    with pytest.raises(FormatError, match="array X: Object arrays cannot be loaded"):
        load_splits(path)
    np.savez(path, X=np.eye(50), y=np.arange(50) % 2)
    content = path.read_bytes()
    shape = b"(50, 50)"
    assert content.count(shape) == 1
    # A header that promises 8 TB, under a right checksum: the archive is made anew.
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(shape + b", }" + b" " * 10, b"(1000000, 1000000), }"))
    with pytest.raises(FormatError, match=r"array X: its header promises shape \(1000000, 1000000\)"):
        load_splits(path)
    for damaged in (b"", b"no zip file", content[: len(content) // 2], content.replace(shape, b"(50, 5x)")):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"file\.npz"):
            load_splits(path)


def _npy(shape: tuple[int, ...], dtype: str = "<f8", values: bytes = b"") -> bytes:
    """An .npy file whose header promises `shape`, whatever it holds."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + values


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 2**31), "holds no examples"),
        ((0, 2**40), "holds no examples"),
        ((2**40, 0), "has no feature"),
        ((-1, 4), "its header promises shape"),
        ((2**40, 2**40), "its header promises shape"),
    ],
)
def test_headers_cost_nothing_beyond_their_file(tmp_path: Path, shape: tuple[int, ...], message: str) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder, _npy(shape), "features.npy")
    np.save(folder / "labels.npy", np.zeros(0))
    archive = tmp_path / "set.npz"
    with zipfile.ZipFile(archive, "w") as new:
        new.writestr("X.npy", _npy(shape))
        new.writestr("y.npy", _npy((0,), "<i8"))
    tracemalloc.start()
    for source in (folder, archive):
        with pytest.raises((DataError, FormatError), match=message):
            load_splits(source)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_idx_counts_are_compared_before_anything_is_unpacked(tmp_path: Path) -> None:
    header = b"\0\0\x08\x03" + (1_600_000).to_bytes(4, "big") + (32).to_bytes(4, "big") * 2
    content = gzip.compress(header + bytes(16_000_000))  # promises 1.6 GB, which 1.6 MB of gzip can hold
    write(tmp_path, content + bytes(1 << 21), "train-images-idx3-ubyte.gz")
    write(tmp_path, idx_bytes(np.arange(40) % 2), "train-labels-idx1-ubyte")
    with pytest.raises(DataError, match=r"1600000 examples but labels of shape \(40,\)"):
        load_splits(tmp_path)
    empty = b"\0\0\x08\x03" + (0).to_bytes(4, "big") + (2**31).to_bytes(4, "big") * 2
    write(tmp_path, empty, "train-images-idx3-ubyte.gz")
    with pytest.raises(DataError, match="holds no examples"):
        load_splits(tmp_path)


def test_types_under_their_old_names(tmp_path: Path) -> None:
    np.save(tmp_path / "features.npy", np.zeros((6, 2)))
    (tmp_path / "labels.npy").write_bytes(_npy((6,), values=b"nynyny", dtype="|a1"))  # numpy 1 called bytes a
    assert load_splits(tmp_path).classes == ("n", "y")


def test_headers_that_python_cannot_read(tmp_path: Path) -> None:
    text = b"-" * 9000 + b"1\n"
    archive = tmp_path / "minus.npz"
    with zipfile.ZipFile(archive, "w") as new:
        new.writestr("X.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        new.writestr("y.npy", _npy((0,)))
    with pytest.raises(FormatError, match="array X: "):
        load_splits(archive)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as new:
        new.writestr("X.npy", _npy((50, 50), values=bytes(20_000)))
        new.writestr("y.npy", _npy((50,), values=bytes(400)))
    content = bytearray(archive.read_bytes())
    content[60:90] = b"\xff" * 30
    archive.write_bytes(content)
    with pytest.raises(FormatError, match=r"not a readable \.npz file|array X"):
        load_splits(archive)
