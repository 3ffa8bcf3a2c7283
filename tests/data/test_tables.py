"""CSV and Parquet files: what is read, and what is refused."""

import gzip
import os
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from lcml.data import UNLABELLED, load_examples, load_splits
from lcml.errors import DataError, FormatError, MissingDependencyError
from lcml.inputs.encoders import fit_encoder
from tests.data.files import TABLE, numbers_of, write


def test_csv_is_read_by_column_name(tmp_path: Path) -> None:
    splits = load_splits(write(tmp_path, "\ufeff" + TABLE))
    assert (splits.name, splits.classes, splits.feature_names) == ("table", ("no", "yes"), ("a", "b"))
    for part in (splits.train, splits.valid, splits.test):
        assert np.all(numbers_of(part)[:, 0] % 2 == part.labels)
        assert np.all(numbers_of(part) @ [1, -2] == 0)
    assert load_splits(write(tmp_path, TABLE.replace("label", "answer")), target="answer").classes == ("no", "yes")


def test_a_model_finds_its_columns_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path, "b,note,a,y\n1,text,2,yes\n3,text,4,no\n")
    examples = load_examples(path, classes=("maybe", "no", "yes"), feature_names=("a", "b"))
    assert numbers_of(examples).tolist() == [[2, 1], [4, 3]]
    assert examples.labels.tolist() == [2, 1]
    assert load_examples(path, feature_names=("a", "b"), require_labels=False).labels.tolist() == [UNLABELLED] * 2
    with pytest.raises(DataError, match="row 0 has the label 'yes', which was not in training"):
        load_examples(path, classes=("maybe", "no"), feature_names=("a", "b"))
    with pytest.raises(DataError, match="expected 3 feature columns, found 3, without c; give the columns trained on"):
        load_examples(path, feature_names=("a", "b", "c"))


def test_columns_without_names_match_by_position(tmp_path: Path) -> None:
    path = write(tmp_path, "label,1x1,1x2\n0,5,6\n1,7,8\n")
    assert numbers_of(load_examples(path, feature_names=("pixel_0_0", "pixel_0_1"))).tolist() == [[5, 6], [7, 8]]
    assert numbers_of(load_examples(path, feature_names=("x0", "x1"))).tolist() == [[5, 6], [7, 8]]


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
    assert numbers_of(load_examples(path))[:2].tolist() == [[1.5, 1, 1], [2.5, 0, 2]]


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
        (TABLE.replace("a,b", "a,"), "column 1 has no name"),
        (TABLE.replace("\n3,1.5,yes", "\n3,1.5,"), r"row 3 of the target 'label' is empty"),
        (TABLE.replace("\n3,1.5,yes", "\n3,1.5,NA"), r"row 3 of the target 'label' is empty"),
        (TABLE.replace("yes", "1").replace("no", "0").replace("\n3,1.5,1", "\n3,1.5,null"), "row 3 of the target"),
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


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("red", r"column 'b' is not numeric \(text: 0.0, 0.5, 1.0\); drop it, or choose the encoder columns"),
        ("", r"row 3, column 1 \('b'\) is nan; features must be finite: fill in or drop it"),
        ("NaN", r"row 3, column 1 \('b'\) is nan"),
        ("inf", r"row 3, column 1 \('b'\) is inf"),
    ],
)
def test_an_encoder_of_numbers_alone_refuses_other_columns(tmp_path: Path, value: str, message: str) -> None:
    features = load_examples(write(tmp_path, TABLE.replace("\n3,1.5", f"\n3,{value}"))).features
    with pytest.raises(DataError, match=message):
        fit_encoder("scale", features, feature_names=("a", "b"))


def test_other_wrong_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"there is no 'colour'; name one with --target out of: a, b, label"):
        load_splits(write(tmp_path, TABLE), target="colour")
    with pytest.raises(DataError, match="--target 'colour' names a column of a table, but iris is none"):
        load_splits("iris", target="colour")
    with pytest.raises(DataError, match=r"unknown kind of file '\.xlsx'; expected \.npz, \.csv"):
        load_splits(write(tmp_path, "", "book.xlsx"))
    with pytest.raises(FormatError, match=r"torn\.parquet: not a readable table"):
        load_splits(write(tmp_path, b"PAR1 and no more", "torn.parquet"))
    monkeypatch.setattr("lcml.data.delimited.MAX_HEADER_CHARS", 100)
    with pytest.raises(FormatError, match="a line is longer than 100"):
        load_splits(write(tmp_path, "a" * 1000))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"reading table\.csv needs .* pip install 'lcml\[tables\]'"):
        load_splits(write(tmp_path, TABLE))


def test_text_tables_of_every_kind_hold_the_same(tmp_path: Path) -> None:
    plain = load_splits(write(tmp_path, TABLE, "plain.csv"))
    variants: dict[str, str | bytes] = {
        "semicolons.csv": TABLE.replace(",", ";"),
        "decimal-comma.csv": TABLE.replace(",", ";").replace(".", ","),
        "tabs.tsv": TABLE.replace(",", "\t"),
        "tabs.csv": TABLE.replace(",", "\t"),
        "bars.csv": TABLE.replace(",", "|"),
        "packed.csv.gz": gzip.compress(TABLE.encode()),
        "quoted.csv": TABLE.replace("no", '"no"').replace("a,b", '"a",b'),
        "windows.csv": "\ufeff" + TABLE.replace("\n", "\r\n"),
    }
    for name, content in variants.items():
        splits = load_splits(write(tmp_path, content, name))
        assert splits.fingerprint == plain.fingerprint, name
        assert splits.name == name.split(".")[0]
        told = "".join(splits.notes)
        assert ("separated by" in told) == (name in ("semicolons.csv", "decimal-comma.csv", "tabs.csv", "bars.csv"))
        assert ("decimals with a comma" in told) == (name == "decimal-comma.csv")
    damaged = gzip.compress(TABLE.encode())[:-9]
    with pytest.raises(FormatError, match=r"cut\.csv\.gz: damaged gzip data"):
        load_splits(write(tmp_path, damaged, "cut.csv.gz"))


def test_line_breaks_in_quotes_and_long_rows(tmp_path: Path) -> None:
    broken = "a,b,note,label\n" + "".join(f'{i},{i},"{"x" * 90}\n{"y" * 90}",{i % 2}\n' for i in range(12_000))
    path = write(tmp_path, broken, "broken.csv")
    assert path.stat().st_size > 2_000_000
    assert numbers_of(load_examples(path, feature_names=("a", "b"))).tolist() == [[i, i] for i in range(12_000)]
    rows = [",".join([f"{i}.123456789012345{'0' * 200}"] * 5_000) + f",{i % 2}\n" for i in range(4)]
    wide = write(tmp_path, ",".join(f"c{j}" for j in range(5_000)) + ",y\n" + "".join(rows), "wide.csv")
    assert min(map(len, rows)) > 1_000_000
    assert numbers_of(load_examples(wide, classes=(0, 1)))[:, -1].tolist() == [i + 0.123456789012345 for i in range(4)]


def test_a_line_of_names_longer_than_a_megabyte(tmp_path: Path) -> None:
    names = [f"{'measurement of gene number':>80} {j}" for j in range(20_000)]
    rows = "".join(",".join(["1"] * len(names)) + f",{i % 2}\n" for i in range(2))
    path = write(tmp_path, ",".join(names) + ",y\n" + rows)
    assert len(",".join(names)) > 1 << 20
    assert load_examples(path, classes=(0, 1)).features.shape == (2, 20_000)


def test_more_columns_than_a_text_table_may_have(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"131073 columns; expected at most 131072: save the table as \.npz"):
        load_splits(write(tmp_path, "a," * (1 << 17) + "label\n"))


@pytest.mark.parametrize("separator", [",", ";"])
def test_gzip_data_that_unpack_to_gigabytes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: str
) -> None:
    table = "a,b,label\n" + "0,0,1\n" * 100_000
    path = write(tmp_path, gzip.compress(table.replace(",", separator).encode()), "bomb.csv.gz")
    monkeypatch.setattr("lcml.data.delimited.UNPACKED_BYTES", 1 << 19)
    with pytest.raises(FormatError, match=r"bomb\.csv\.gz: its gzip data unpack to more than 0 MB, over 100 times"):
        load_splits(path)
    monkeypatch.setattr("lcml.data.delimited.UNPACKED_BYTES", 1 << 20)
    assert len(load_examples(path, classes=(0, 1))) == 100_000


def test_rows_without_content_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rows = tmp_path / "alike.parquet", 100_000
    parquet.write_table(pa.table({"a": np.zeros(rows), "label": np.ones(rows, int)}), path, compression="zstd")
    assert path.stat().st_size < rows / 32
    monkeypatch.setattr("lcml.data.parquet.MANY_ROWS", rows - 1)
    with pytest.raises(DataError, match=r"alike\.parquet has 100000 rows in so few bytes that nearly all"):
        load_splits(path)
    monkeypatch.setattr("lcml.data.parquet.MANY_ROWS", rows)
    assert len(load_examples(path, classes=(0, 1))) == rows


def test_columns_named_by_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, "0,1,2\n" + "".join(f"{i},{-i},{i % 2}\n" for i in range(10)))
    assert load_splits(path, target="2").feature_names == ("0", "1")
    assert numbers_of(load_examples(path, feature_names=("1",), target="2"))[3].tolist() == [-3]
    with pytest.raises(DataError, match=r"starts with numbers .* name the target among them with --target"):
        load_splits(path)


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_row_numbers_of_a_text_table_are_no_feature(tmp_path: Path, name: str) -> None:
    lines = TABLE.splitlines()
    numbered = [f"{name},{lines[0]}", *(f"{i},{line}" for i, line in enumerate(lines[1:]))]
    splits = load_splits(write(tmp_path, "\n".join(numbered) + "\n"))
    assert splits.feature_names == ("a", "b")
    assert splits.fingerprint == load_splits(write(tmp_path, TABLE, "plain.csv")).fingerprint
    assert splits.notes == (f"{tmp_path / 'table.csv'}: column {name!r} numbers the rows; it is left out",)


def test_a_frames_index_is_no_feature(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(10.0), "label": [0, 1] * 5}, index=pd.Index(3 * np.arange(10), name="visit"))
    frame.to_parquet(tmp_path / "frame.parquet")
    splits = load_splits(tmp_path / "frame.parquet")
    assert splits.feature_names == ("a",)
    assert "column 'visit' numbers the rows" in splits.notes[0]
    assert load_splits(tmp_path / "frame.parquet", target="label").feature_names == ("a",)
    asked = load_examples(tmp_path / "frame.parquet", feature_names=("visit", "a"))  # by a model that was trained on it
    assert numbers_of(asked)[3].tolist() == [9, 3]


def test_a_directory_of_parquet_parts_is_one_table(tmp_path: Path) -> None:
    rows: dict[str, list[Any]] = {"a": list(range(20)), "label": ["no", "yes"] * 10}
    (tmp_path / "parts").mkdir()
    for part, span in (("b", slice(7, 20)), ("a", slice(0, 7))):
        table = pa.table({name: values[span] for name, values in rows.items()})
        parquet.write_table(table, tmp_path / "parts" / f"{part}.parquet")
    (tmp_path / "parts" / "_metadata").write_bytes(b"not a part")
    parquet.write_table(pa.table(rows), tmp_path / "whole.parquet")
    parts, whole = load_splits(tmp_path / "parts"), load_splits(tmp_path / "whole.parquet")
    assert (parts.name, parts.fingerprint) == ("parts", whole.fingerprint)
    parquet.write_table(pa.table({"a": [1], "answer": ["no"]}), tmp_path / "parts" / "c.parquet")
    with pytest.raises(DataError, match=r"c\.parquet: expected the columns of a\.parquet, .* in answer, label"):
        load_splits(tmp_path / "parts")


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (pa.array([1, 2] * 5).cast(pa.decimal128(22, 2)), (1, 2)),
        (pa.array([b"no", b"yes"] * 5), ("no", "yes")),
        (pa.array([1.0, 0.0] * 5), (0, 1)),
        (pa.array([True, False] * 5), ("false", "true")),
        (pa.array([date(2026, 1, 31), date(2025, 12, 24)] * 5), ("2025-12-24", "2026-01-31")),
        (pa.array([datetime(2026, 1, 31), datetime(2025, 12, 24)] * 5), ("2025-12-24", "2026-01-31")),
        (pa.array(["01", "1"] * 5), ("01", "1")),
        (pa.array(["NA", "CH"] * 5), ("CH", "NA")),
    ],
)
def test_labels_are_spelled_alike_in_parquet_and_text(
    tmp_path: Path, values: pa.Array, classes: tuple[object, ...]
) -> None:
    parquet.write_table(pa.table({"a": range(10), "label": values}), tmp_path / "table.parquet")
    found = load_splits(tmp_path / "table.parquet")
    assert found.classes == classes
    texts = [value.decode() if isinstance(value, bytes) else str(value) for value in values.to_pylist()]
    lines = "".join(f'{i},"{text.removesuffix(" 00:00:00")}"\n' for i, text in enumerate(texts))
    assert load_splits(write(tmp_path, "a,label\n" + lines)).fingerprint == found.fingerprint


@pytest.mark.parametrize("gap", ["NA", "NaN", "null", ""])
def test_a_missing_label_is_no_class(tmp_path: Path, gap: str) -> None:
    numbers = "".join(f"{i},{i % 2}\n" for i in range(10))
    with pytest.raises(DataError, match="row 10 of the target 'label' is empty"):
        load_splits(write(tmp_path, f"a,label\n{numbers}10,{gap}\n"))


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zeros.npz").symlink_to("/dev/zero")
    for name in ("pipe.csv", "zeros.npz"):
        with pytest.raises(DataError, match=f"{name} is no regular file"):
            load_splits(tmp_path / name)


def test_a_parquet_file_that_contradicts_itself_ends_no_process(tmp_path: Path) -> None:
    """pyarrow aborts the process that asks for the description of this column."""
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": [1, None, 3, 4], "label": list("xyxy")}), path)
    content = path.read_bytes()
    column = content.rindex(b"\x15\x04\x19")  # INT64, as the first thing that is said of a column's pages
    path.write_bytes(content[: column + 1] + b"\x0a" + content[column + 2 :])  # DOUBLE
    with pytest.raises(DataError, match=r"^cannot read \S*t\.parquet: ColumnMetaData type does not match"):
        load_examples(str(path))


def test_a_parquet_file_that_promises_other_rows_than_it_holds(tmp_path: Path) -> None:
    """Where the footer says 41, pyarrow hands out 40."""
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": np.arange(40.0), "label": list("xy" * 20)}), path)
    content = path.read_bytes()
    begins, found = len(content) - 8 - int.from_bytes(content[-8:-4], "little"), 0
    for place in range(begins, len(content)):
        if content[place] == 80:  # 40 in Thrift's compact form
            path.write_bytes(content[:place] + b"\x52" + content[place + 1 :])
            try:
                promised = parquet.ParquetFile(path).metadata.num_rows
            except (pa.ArrowException, OSError):
                continue
            if promised == 41:
                found += 1
                with pytest.raises(FormatError, match="holds more or fewer rows than it promises"):
                    load_examples(str(path))
    assert found
