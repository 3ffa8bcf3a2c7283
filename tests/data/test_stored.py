"""Data sets that stay on disk: the same examples as in memory."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from lcml.data import UNLABELLED, DataSplits, load_examples, load_splits
from lcml.errors import DataError, FormatError, OutputError
from lcml.inputs.rows import Rows
from lcml.inputs.table import Table
from lcml.runs.preparation import mixed
from tests.data.files import numbers_of, write_idx_set

FEATURES = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
LABELS = np.arange(300) // 100


def arrays(folder: Path) -> Path:
    folder.mkdir()
    np.save(folder / "features.npy", FEATURES)
    np.save(folder / "labels.npy", LABELS)
    return folder


def image_arrays(folder: Path) -> Path:
    arrays(folder)
    np.save(folder / "features.npy", np.arange(300 * 6, dtype=np.uint8).reshape(300, 2, 3))
    return folder


def idx(folder: Path) -> Path:
    write_idx_set(folder)
    return folder


def table(folder: Path) -> Path:
    """Columns of several types in row groups of several sizes; the labels are a dictionary that grows."""
    columns = {
        "a": pa.array(FEATURES[:, 0]),
        "b": pa.array(np.arange(300, dtype=np.int16)),
        "c": pa.array([i % 3 == 0 for i in range(300)]),
        "price": pa.array([1, 2, 3] * 100).cast(pa.decimal128(22, 2)),
        "colour": pa.array([None if i % 7 == 0 else ("red", "green", "blue")[i % 3] for i in range(300)]),
        "label": pa.array(["xyz"[code] for code in LABELS]).dictionary_encode(),
    }
    whole = pa.table(columns)
    with parquet.ParquetWriter(folder.with_suffix(".parquet"), whole.schema) as writer:
        for first, stop in ((0, 7), (7, 250), (250, 300)):
            writer.write_table(whole.slice(first, stop - first))
    return folder.with_suffix(".parquet")


def examples_of(splits: DataSplits) -> list[object]:
    parts = (splits.train, splits.valid, splits.test)
    return [[repr(matrix_of(part.features)[:].tolist()), part.labels.tolist()] for part in parts]  # NaN is not NaN


def matrix_of(features: Any) -> Any:
    return features.values if isinstance(features, Table) else features


@pytest.mark.parametrize("make", [arrays, image_arrays, idx, table], ids=lambda make: make.__name__)
def test_what_stays_on_disk_is_what_would_be_in_memory(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcml.data.tables.CHUNK_BYTES", 8 * 5 * 33)  # tables of 33 rows
    source = make(tmp_path / "set")
    inside, outside = load_splits(source, seed=4), load_splits(source, seed=4, memory_budget=0)
    for part in ("train", "valid", "test"):
        stored, held = getattr(outside, part).features, getattr(inside, part).features
        assert isinstance(matrix_of(stored), Rows)
        assert isinstance(matrix_of(held), np.ndarray)
        assert stored.dtype == held.dtype
        if isinstance(held, Table):
            assert stored.columns == held.columns
    assert examples_of(outside) == examples_of(inside)
    assert outside.fingerprint == inside.fingerprint
    assert (outside.classes, outside.feature_names) == (inside.classes, inside.feature_names)
    assert (outside.name, outside.image_shape) == (inside.name, inside.image_shape)


def test_arrays_are_read_as_they_were_written(tmp_path: Path) -> None:
    splits = load_splits(arrays(tmp_path / "set"), valid_fraction=0, test_fraction=0, memory_budget=0)
    assert splits.train.features[:].tolist() == FEATURES.tolist()
    assert splits.train.labels.tolist() == LABELS.tolist()
    assert (splits.name, splits.feature_names) == ("set", ("x0", "x1", "x2", "x3"))
    assert load_splits(image_arrays(tmp_path / "images")).image_shape == (2, 3)
    assert load_examples(tmp_path / "set").features[:].tolist() == FEATURES.tolist()
    (tmp_path / "set" / "labels.npy").unlink()
    assert load_examples(tmp_path / "set", require_labels=False).labels.tolist() == [UNLABELLED] * 300


@pytest.mark.parametrize("budget", [0, 2**20])
def test_arrays_that_cannot_be_learned_from(tmp_path: Path, budget: int) -> None:
    folder = arrays(tmp_path / "set")

    def refused(kind: type[Exception], message: str) -> None:
        with pytest.raises(kind, match=message):
            load_splits(folder, memory_budget=budget)

    np.save(folder / "features.npy", np.asfortranarray(FEATURES))
    refused(DataError, r"features\.npy: expected numbers as .* by columns: save it with .*ascontiguousarray")
    np.save(folder / "features.npy", FEATURES.astype(str))
    refused(DataError, r"features\.npy: expected numbers as a matrix .* found shape \(300, 4\) of type <U32")
    np.save(folder / "features.npy", np.array([{}]), allow_pickle=True)
    refused(DataError, r"features\.npy: expected numbers .* of type object")
    np.save(folder / "features.npy", FEATURES)
    content = (folder / "features.npy").read_bytes()
    for damaged in (content[:-1], content + b"\0", b"", b"no array", content.replace(b"(300, 4)", b"(300, 5)")):
        (folder / "features.npy").write_bytes(damaged)
        refused(FormatError, r"features\.npy: not a readable \.npy file")
    (folder / "features.npy").write_bytes(content)
    np.save(folder / "labels.npy", np.array([None] * 300), allow_pickle=True)
    refused(FormatError, r"labels\.npy: not a readable \.npy file \(Object arrays cannot be loaded")
    np.save(folder / "labels.npy", LABELS[:-1])
    refused(DataError, r"300 examples but labels of shape \(299,\)")
    (folder / "labels.npy").unlink()
    refused(DataError, r"cannot read .*labels\.npy: No such file")
    hole = FEATURES.copy()
    hole[290, 1] = np.inf
    np.save(folder / "features.npy", hole)
    np.save(folder / "labels.npy", LABELS)
    refused(DataError, r"set, examples: row 290, column 1 \('x1'\) is inf")


def test_rows_of_a_table_are_counted_from_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcml.data.tables.CHUNK_BYTES", 8 * 3 * 10)  # tables of 10 rows
    path = tmp_path / "table.parquet"
    numbers, labels = list(range(50)), ["no", "yes"] * 25
    parquet.write_table(pa.table({"a": [*numbers[:33], None, *numbers[34:]], "b": numbers, "label": labels}), path)
    with pytest.raises(DataError, match=r"row 33, column 0 \('a'\) is nan; features must be finite"):
        numbers_of(load_examples(path))
    parquet.write_table(pa.table({"a": numbers, "label": [*labels[:41], None, *labels[42:]]}), path)
    with pytest.raises(DataError, match="row 41 of the target 'label' is empty"):
        load_splits(path, memory_budget=0)


def test_the_temporary_file_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setenv("TMPDIR", str(spool))
    monkeypatch.setattr("tempfile.tempdir", None)
    path = table(tmp_path / "set")
    before = len(os.listdir("/proc/self/fd"))
    splits = load_splits(path, memory_budget=0)
    assert list(spool.iterdir()) == []  # it has no name: the system drops it with the process
    del splits
    assert len(os.listdir("/proc/self/fd")) == before
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(OutputError, match=f"temporary file in {spool}: No space left on device; make room there"):
        load_splits(path, memory_budget=0)


def test_a_disk_that_fills_up_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("the system has no device that is always full")
    monkeypatch.setattr("tempfile.TemporaryFile", lambda dir: io.FileIO("/dev/full", "w+"))
    with pytest.raises(OutputError, match="No space left on device; make room there"):
        load_splits(table(tmp_path / "set"), memory_budget=0)


def test_mixed_examples_are_the_same_examples(tmp_path: Path) -> None:
    splits = load_splits(arrays(tmp_path / "set"), valid_fraction=0, test_fraction=0, memory_budget=0)
    train = mixed(splits.train, seed=1)
    assert sorted(train.features[:].tolist()) == sorted(FEATURES.tolist())
    row_of = {row.tobytes(): i for i, row in enumerate(FEATURES)}
    assert [LABELS[row_of[row.tobytes()]] for row in train.features[:]] == train.labels.tolist()
    assert len(np.unique(train.labels[:128])) == 3  # as written, the first hundred are all of one class
    assert mixed(splits.train, seed=1).labels.tolist() == train.labels.tolist()


def test_a_relative_path_begins_at_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    assert load_splits("there", data_dir=tmp_path).source == str(tmp_path / "there")
    assert load_splits(tmp_path / "there", data_dir="/nowhere").source == str(tmp_path / "there")
    with pytest.raises(DataError, match=f"no data set and no file '{tmp_path}/there/there'"):
        load_splits("there", data_dir=tmp_path / "there")
    monkeypatch.setenv("LCML_DATA_DIR", str(tmp_path))  # for named sets alone
    with pytest.raises(DataError, match="no data set and no file 'there'"):
        load_splits("there")
