"""Sets that have a name: what is read of them."""

import hashlib
import urllib.error
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import datasets

from lcml.data import NAMED_SETS, load_examples, load_splits, named
from lcml.data.idx import read_idx
from lcml.data.named import read_named
from lcml.errors import DataError
from tests.data.files import idx_bytes, write_idx_set


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
        assert [splits.classes[code] for code in part.labels] == [label_of[row.tobytes()] for row in part.features[:]]


def test_digits_are_those_that_scikit_learn_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    data, target = datasets.load_digits(return_X_y=True)
    read = read_named("digits", None, 0)
    np.testing.assert_array_equal(read.features[:], data)
    np.testing.assert_array_equal(read.labels, target)
    monkeypatch.setattr(named, "find_spec", lambda _: None)  # as where its files lie elsewhere
    np.testing.assert_array_equal(read_named("digits", None, 0).features[:], data)


@pytest.mark.parametrize("train_fraction", [1.0, 0.25])
def test_the_same_arguments_give_the_same_division(train_fraction: float) -> None:
    again = [load_splits("digits", seed=7, train_fraction=train_fraction, valid_fraction=0.2) for _ in range(2)]
    assert again[0].train.features[:].tobytes() == again[1].train.features[:].tobytes()
    test = load_examples("digits", seed=7, train_fraction=train_fraction, valid_fraction=0.2)
    assert test.features[:].tobytes() == again[0].test.features[:].tobytes()
    assert test.labels.tobytes() == again[0].test.labels.tobytes()
    valid = load_examples("digits", seed=7, train_fraction=train_fraction, valid_fraction=0.2, split="valid")
    assert valid.features[:].tobytes() == again[0].valid.features[:].tobytes()
    assert load_examples("digits", seed=8).features[:].tobytes() != test.features[:].tobytes()


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
    assert not train.features[:].flags.writeable
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
    assert splits.test.features[:].tolist() == arrays["t10k-images-idx3-ubyte"].reshape(10, 6).tolist()
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
