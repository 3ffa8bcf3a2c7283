"""Data sets: what is read, how it is divided, and what is refused."""

import gzip
import hashlib
import io
import sys
import urllib.error
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyarrow import parquet
from sklearn import datasets

from lcml.data import NAMED_SETS, UNLABELLED, load_examples, load_splits
from lcml.data.idx import read_idx
from lcml.data.labels import code_labels
from lcml.data.stratify import apportion, draw
from lcml.errors import DataError, FormatError, MissingDependencyError

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


# Named sets


@pytest.mark.parametrize(
    ("name", "n_total", "n_features", "classes"),
    [
        ("digits", 1797, 64, tuple(range(10))),
        ("breast-cancer", 569, 30, ("benign", "malignant")),
        ("wine", 178, 13, ("class_0", "class_1", "class_2")),
        ("iris", 150, 4, ("setosa", "versicolor", "virginica")),
    ],
)
def test_shipped_sets(name: str, n_total: int, n_features: int, classes: tuple[int | str, ...]) -> None:
    splits = load_splits(name)
    parts = (splits.train, splits.valid, splits.test)
    assert sum(len(part) for part in parts) == n_total
    assert len(splits.test) == round(0.2 * n_total)
    assert all(part.features.shape == (len(part), n_features) for part in parts)
    assert (splits.name, splits.classes, len(splits.feature_names)) == (name, classes, n_features)
    assert splits.image_shape == ((8, 8) if name == "digits" else None)


def test_labels_follow_their_features() -> None:
    data, target = datasets.load_breast_cancer(return_X_y=True)
    label_of = {row.tobytes(): ("malignant", "benign")[label] for row, label in zip(data, target, strict=True)}
    splits = load_splits("breast-cancer", seed=3)
    for part in (splits.train, splits.valid, splits.test):
        assert [splits.classes[code] for code in part.labels] == [label_of[row.tobytes()] for row in part.features]


@pytest.mark.parametrize("train_fraction", [1.0, 0.25])
def test_the_same_arguments_give_the_same_division(train_fraction: float) -> None:
    again = [load_splits("digits", seed=7, train_fraction=train_fraction, valid_fraction=0.2) for _ in range(2)]
    assert again[0].train.features.tobytes() == again[1].train.features.tobytes()
    test = load_examples("digits", seed=7, train_fraction=train_fraction, valid_fraction=0.2)
    assert test.features.tobytes() == again[0].test.features.tobytes()
    assert test.labels.tobytes() == again[0].test.labels.tobytes()
    valid = load_examples("digits", seed=7, train_fraction=train_fraction, valid_fraction=0.2, split="valid")
    assert valid.features.tobytes() == again[0].valid.features.tobytes()
    assert load_examples("digits", seed=8).features.tobytes() != test.features.tobytes()


def test_the_division_is_disjoint_and_stratified() -> None:
    splits = load_splits("iris", train_fraction=0.5)
    # 50 of each class: 10 for the test, half of 40 kept, a tenth of 20 for validation.
    assert [np.bincount(part.labels).tolist() for part in (splits.train, splits.valid, splits.test)] == [
        [18, 18, 18],
        [2, 2, 2],
        [10, 10, 10],
    ]


def test_a_division_does_not_change_between_versions() -> None:
    labels = load_splits("digits", seed=0).test.labels
    assert hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()[:16] == "bfc50f70029db073"


def test_the_fingerprint_depends_on_the_data_alone() -> None:
    prints = {load_splits("iris", seed=seed, test_fraction=0.1 * (seed + 1)).fingerprint for seed in range(3)}
    assert len(prints) == 1
    assert prints.isdisjoint({load_splits("wine").fingerprint})


def test_examples_are_read_only() -> None:
    train = load_splits("iris").train
    assert not train.features.flags.writeable
    assert not train.labels.flags.writeable


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("inside", ["mnist", "."])
def test_image_sets_come_from_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: bool, inside: str
) -> None:
    arrays = write_idx_set(tmp_path / inside, pack=pack)
    monkeypatch.setenv("LCML_DATA_DIR", str(tmp_path / "elsewhere"))
    splits = load_splits("mnist", data_dir=tmp_path)
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (36, 4, 10)
    assert splits.image_shape == (3, 2)
    assert splits.feature_names == ("pixel_0_0", "pixel_0_1", "pixel_1_0", "pixel_1_1", "pixel_2_0", "pixel_2_1")
    assert splits.test.features.tolist() == arrays["t10k-images-idx3-ubyte"].reshape(10, 6).tolist()
    monkeypatch.setenv("LCML_DATA_DIR", str(tmp_path))
    assert load_splits("mnist").fingerprint == splits.fingerprint


def test_one_image_set_is_not_taken_for_another(tmp_path: Path) -> None:
    write_idx_set(tmp_path / "fashion-mnist")
    with pytest.raises(DataError, match="is the folder of another set than mnist"):
        load_splits("mnist", data_dir=tmp_path / "fashion-mnist")
    with pytest.raises(DataError, match="holds no mnist; give a directory"):
        load_splits("mnist", data_dir=tmp_path)


def test_without_a_directory_or_a_network_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.delenv("LCML_DATA_DIR", raising=False)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(DataError, match=r"no route to host.*--data-dir"):
        load_splits("fashion-mnist")


def test_a_fetched_set_equals_one_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [array.reshape(len(array), -1) for array in write_idx_set(tmp_path).values()]
    bunch = SimpleNamespace(
        data=np.concatenate(arrays[::2]).astype(float), target=np.concatenate(arrays[1::2]).ravel().astype(str)
    )
    monkeypatch.delenv("LCML_DATA_DIR", raising=False)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: bunch)
    monkeypatch.setattr("lcml.data.named.N_TRAIN", 40)
    monkeypatch.setattr("lcml.data.named.IMAGE_SHAPE", (3, 2))
    assert load_splits("mnist").fingerprint == load_splits("mnist", data_dir=tmp_path).fingerprint


@pytest.mark.data
def test_mnist_is_the_published_one(data_dir: Path) -> None:
    images = read_idx(data_dir / "mnist" / "train-images-idx3-ubyte.gz")
    md5 = hashlib.md5(idx_bytes(images), usedforsecurity=False).hexdigest()
    assert md5 == "6bbc9ace898e44ae57da46a324031adb"
    splits = load_splits("mnist", data_dir=data_dir, train_fraction=0.02)
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (1080, 120, 10000)
    assert np.bincount(splits.test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"'minst'; give one of " + ", ".join(NAMED_SETS) + ", or the path"):
        load_splits("minst")


# Stratified choice


def test_apportion_by_largest_remainder() -> None:
    # Quotas 1.5, 2.1, 0.4 of a total of 4: floors 1, 2, 0; the one seat left goes to .5.
    assert apportion(np.array([15, 21, 4]), 0.1).tolist() == [2, 2, 0]
    assert apportion(np.array([15, 21, 4]), 0.1, least=1).tolist() == [2, 2, 1]
    assert apportion(np.array([3, 30]), 0.9, leave=2).tolist() == [1, 27]


@given(
    counts=st.lists(st.integers(2, 200), min_size=1, max_size=6), fraction=st.floats(0, 1), seed=st.integers(0, 2**32)
)
def test_a_drawn_part_is_in_proportion(counts: list[int], fraction: float, seed: int) -> None:
    sizes = np.array(counts)
    codes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    n_chosen = apportion(sizes, fraction)
    assert n_chosen.sum() == round(fraction * int(sizes.sum()))
    assert np.all(np.abs(n_chosen - fraction * sizes) < 1 + 1e-9)
    others, chosen = draw(codes, n_chosen, np.random.default_rng(seed))
    assert sorted([*others, *chosen]) == list(range(len(codes)))
    assert np.bincount(codes[chosen], minlength=len(sizes)).tolist() == n_chosen.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train_fraction": 0.0}, "train_fraction must be above 0"),
        ({"train_fraction": 1.5}, "train_fraction must be above 0 and at most 1; found 1.5"),
        ({"train_fraction": float("nan")}, "train_fraction must be above 0"),
        ({"train_fraction": 0.02}, r"keeps 0 of 40 examples of class 'virginica'.*need 2; use at least 0\.05"),
        ({"valid_fraction": 1.0}, "valid_fraction must be at least 0 and below 1"),
        ({"test_fraction": -0.1}, "test_fraction must be at least 0"),
        ({"seed": -1}, "the seed must be 0 or"),
    ],
)
def test_fractions_out_of_range(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_splits("iris", **arguments)


def test_the_suggested_train_fraction_is_enough() -> None:
    assert len(load_splits("iris", train_fraction=0.05).train) == 3


def test_fractions_of_zero_leave_those_parts_empty() -> None:
    splits = load_splits("iris", valid_fraction=0, test_fraction=0)
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (150, 0, 0)
    assert splits.valid.features.shape == (0, 4)
    with pytest.raises(DataError, match="has no test examples"):
        load_examples("iris", test_fraction=0)


# Labels


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        (np.array([7, 3, 7], np.uint8), (3, 7), [1, 0, 1]),
        (np.array(["10", "9", "10"]), (9, 10), [1, 0, 1]),
        (np.array(["b", "10", "a"]), ("10", "a", "b"), [2, 0, 1]),
        (np.array([1.0, -2.0]), (-2, 1), [1, 0]),
        (np.array(["1.0", "01", "2"]), (1, 2), [0, 0, 1]),
        (np.array([True, False]), ("false", "true"), [1, 0]),
        (np.array(["x", "y"], object), ("x", "y"), [0, 1]),
    ],
)
def test_classes_are_sorted_ints_or_text(labels: NDArray[Any], classes: tuple[int | str, ...], codes: Any) -> None:
    found, coded = code_labels(labels, "here")
    assert found == classes
    assert [type(value) for value in found] == [type(value) for value in classes]
    assert coded.tolist() == codes
    assert coded.dtype == np.int64


def test_labels_are_coded_by_the_classes_of_a_model() -> None:
    assert code_labels(np.array([5, 1]), "here", (1, 3, 5))[1].tolist() == [2, 0]
    assert code_labels(np.array([5, 1]), "here", ("1", "5", "a"))[1].tolist() == [1, 0]
    with pytest.raises(DataError, match=r"here: row 1 has the label 4, .*the classes are 1, 3, 5"):
        code_labels(np.array([5, 4, 1]), "here", (1, 3, 5))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0.5, 1.0]), r"the label 0\.5 is not a whole number"),
        (np.array(["0.5", "1e3"]), r"the label 0\.5 is not a whole number"),
        (np.array([np.nan, 1.0]), "missing or not finite"),
        (np.array(["a", " "]), "a label is missing"),
        (np.array([1, "a"], object), "found a mixture"),
        (np.array([1j]), "found type complex128"),
    ],
)
def test_labels_that_are_no_classes(labels: NDArray[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        code_labels(labels, "here")


# IDX files


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


# NumPy files


def test_npz_of_images_is_read_and_given_whole_to_a_model(tmp_path: Path) -> None:
    images, labels = np.arange(120, dtype=np.uint8).reshape(20, 3, 2), np.arange(20) % 2
    path = tmp_path / "images.npz"
    np.savez_compressed(path, X=images, y=labels)
    splits = load_splits(path)
    assert (splits.name, splits.image_shape, splits.classes) == ("images", (3, 2), (0, 1))
    examples = load_examples(path, classes=(0, 1, 2))
    assert examples.features.tolist() == images.reshape(20, 6).tolist()
    assert examples.labels.tolist() == labels.tolist()


def test_npz_keeps_its_own_test_examples(tmp_path: Path) -> None:
    path = tmp_path / "divided.npz"
    x = np.arange(40.0).reshape(20, 2)
    np.savez(path, x_train=x, y_train=np.arange(20) % 2, x_test=-x[:3], y_test=np.array([1, 1, 1]))
    assert load_splits(path).test.features.tolist() == (-x[:3]).tolist()
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


# Tables


def test_csv_is_read_by_column_name(tmp_path: Path) -> None:
    splits = load_splits(write(tmp_path, "\ufeff" + TABLE))
    assert (splits.name, splits.classes, splits.feature_names) == ("table", ("no", "yes"), ("a", "b"))
    for part in (splits.train, splits.valid, splits.test):
        assert np.all(part.features[:, 0] % 2 == part.labels)
        assert np.all(part.features[:, 0] == 2 * part.features[:, 1])
    assert load_splits(write(tmp_path, TABLE.replace("label", "answer")), target="answer").classes == ("no", "yes")


def test_a_model_finds_its_columns_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path, "b,note,a,y\n1,text,2,yes\n3,text,4,no\n")
    examples = load_examples(path, classes=("maybe", "no", "yes"), feature_names=("a", "b"))
    assert examples.features.tolist() == [[2, 1], [4, 3]]
    assert examples.labels.tolist() == [2, 1]
    assert load_examples(path, feature_names=("a", "b"), require_labels=False).labels.tolist() == [UNLABELLED] * 2
    with pytest.raises(DataError, match="row 0 has the label 'yes', which was not in training"):
        load_examples(path, classes=("maybe", "no"), feature_names=("a", "b"))
    with pytest.raises(DataError, match="expected 3 feature columns, found 3, without c; give the columns trained on"):
        load_examples(path, feature_names=("a", "b", "c"))


def test_columns_without_names_match_by_position(tmp_path: Path) -> None:
    path = write(tmp_path, "label,1x1,1x2\n0,5,6\n1,7,8\n")
    assert load_examples(path, feature_names=("pixel_0_0", "pixel_0_1")).features.tolist() == [[5, 6], [7, 8]]
    assert load_examples(path, feature_names=("x0", "x1")).features.tolist() == [[5, 6], [7, 8]]


def test_another_width_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "wide.npz", X=np.eye(3), y=np.arange(3))
    with pytest.raises(DataError, match="has 3 features, but the model was trained on 2"):
        load_examples(tmp_path / "wide.npz", feature_names=("x0", "x1"))


def test_parquet_types(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    table = pa.table(
        {
            "size.mm": pa.array([1.5, 2.5] * 5),
            "old": pa.array([True, False] * 5),
            "price": pa.array([1, 2] * 5).cast(pa.decimal128(22, 2)),
            "class": pa.array(["b", "a"] * 5).dictionary_encode(),
            "__index_level_0__": pa.array(range(10)),
        }
    )
    parquet.write_table(table, path)
    splits = load_splits(path)
    assert (splits.classes, splits.feature_names) == (("a", "b"), ("size.mm", "old", "price"))
    assert load_examples(path).features[:2].tolist() == [[1.5, 1, 1], [2.5, 0, 2]]


def test_constant_and_equal_columns_are_legal(tmp_path: Path) -> None:
    lines = "".join(f"7,{i},{i},{i % 2}\n" for i in range(10))
    assert len(load_splits(write(tmp_path, f"a,b,c,y\n{lines}")).feature_names) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            TABLE.replace("label", "answer"),
            r"which column is the target\? none is called label, .*out of: a, b, answer",
        ),
        (TABLE.replace("a,b", "a,y"), r"which column is the target\? y, label all could be it"),
        (TABLE.replace("a,b", "a,a"), "column name 'a' is there twice"),
        (TABLE.replace("a,b", ",b"), "column 0 has no name"),
        (TABLE.replace("\n3,1.5", "\n3,red"), "column 'b' is not numeric .*row 3 holds 'red'"),
        (TABLE.replace("\n3,1.5", "\n3,"), "row 3 of column 'b' is empty"),
        (TABLE.replace("\n3,1.5", "\n3,NaN"), "row 3 of column 'b' is empty"),
        (TABLE.replace("\n3,1.5", "\n3,inf"), r"row 3, column 1 \('b'\) is inf"),
        (TABLE.replace("\n3,1.5,yes", "\n3,1.5,"), "a label is missing"),
        (TABLE.replace("no\n", "yes\n"), "one class only, 'yes'"),
        (TABLE.replace("3,1.5,yes", "3,1.5,perhaps"), r"class 'perhaps' has 1 example\(s\), but 3 are needed"),
        ("a,b,label\n", "holds no examples"),
        ("label\n1\n2\n", "has no feature"),
        ("1,2,3\n4,5,6\n", "starts with numbers"),
        ("", "has no columns"),
        ("a,label\n1,x\n2\n", "not a readable table"),
        (b"\xff\xfe\0\x01binary", "not text in UTF-8"),
        (b"a,label\n" + b"1,x\n" * 5000 + b"1,\xff\n", "not a readable table"),
        ("a" * 200_000 + "\n1\n", "no line of column names"),
    ],
)
def test_tables_that_cannot_be_learned_from(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises((DataError, FormatError), match=message) as caught:
        load_splits(write(tmp_path, content))
    assert "table.csv" in str(caught.value)


def test_other_wrong_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"there is no 'colour'; name one with --target out of: a, b, label"):
        load_splits(write(tmp_path, TABLE), target="colour")
    with pytest.raises(DataError, match="--target 'colour' names a column of a table, but iris is none"):
        load_splits("iris", target="colour")
    with pytest.raises(DataError, match=r"unknown kind of file '\.xlsx'; expected \.npz, \.csv"):
        load_splits(write(tmp_path, "", "book.xlsx"))
    with pytest.raises(FormatError, match=r"torn\.parquet: not a readable table"):
        load_splits(write(tmp_path, b"PAR1 and no more", "torn.parquet"))
    monkeypatch.setattr("lcml.data.tables.MAX_HEADER_CHARS", 100)
    with pytest.raises(FormatError, match="first line is longer than 100"):
        load_splits(write(tmp_path, "a" * 1000))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"reading table\.csv needs .* pip install 'lcml\[tables\]'"):
        load_splits(write(tmp_path, TABLE))
