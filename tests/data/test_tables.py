"""CSV and Parquet files: what is read, and what is refused."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from lcml.data import UNLABELLED, load_examples, load_splits
from lcml.errors import DataError, FormatError, MissingDependencyError
from tests.data.files import TABLE, write


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
    assert examples.features[:].tolist() == [[2, 1], [4, 3]]
    assert examples.labels.tolist() == [2, 1]
    assert load_examples(path, feature_names=("a", "b"), require_labels=False).labels.tolist() == [UNLABELLED] * 2
    with pytest.raises(DataError, match="row 0 has the label 'yes', which was not in training"):
        load_examples(path, classes=("maybe", "no"), feature_names=("a", "b"))
    with pytest.raises(DataError, match="expected 3 feature columns, found 3, without c; give the columns trained on"):
        load_examples(path, feature_names=("a", "b", "c"))


def test_columns_without_names_match_by_position(tmp_path: Path) -> None:
    path = write(tmp_path, "label,1x1,1x2\n0,5,6\n1,7,8\n")
    assert load_examples(path, feature_names=("pixel_0_0", "pixel_0_1")).features[:].tolist() == [[5, 6], [7, 8]]
    assert load_examples(path, feature_names=("x0", "x1")).features[:].tolist() == [[5, 6], [7, 8]]


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
