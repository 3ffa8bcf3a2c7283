"""Rows that stay in a file: the same numbers as an array's."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml.errors import DataError
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import EncoderKind, fit_encoder
from lcml.inputs.encoding import EncodedRows, encoded
from lcml.inputs.rows import Rows, StoredMatrix, all_rows, check_features, select

MATRIX = np.random.default_rng(0).normal(size=(100, 3))


def on_disk(matrix: NDArray[Any], path: Path, before: bytes = b"") -> StoredMatrix:
    path.write_bytes(before + matrix.tobytes())
    return StoredMatrix(path.open("rb"), (len(matrix), matrix.shape[1]), matrix.dtype, len(before))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return all_rows(on_disk(MATRIX, tmp_path_factory.mktemp("rows") / "matrix", b"header"))


@given(rows=st.lists(st.integers(0, 99), max_size=20), gap=st.integers(0, 1000))
def test_any_rows_in_any_order(stored: Rows, rows: list[int], gap: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lcml.inputs.rows._GAP_BYTES", gap)
        found = stored.matrix.read(np.array(rows, np.int64))
    assert found.tolist() == MATRIX[rows].tolist()


def test_rows_read_like_an_array(stored: Rows) -> None:
    some = select(stored, np.array([5, 7, 90]))
    assert isinstance(some, Rows)
    assert (some.shape, some.dtype, len(some)) == ((3, 3), MATRIX.dtype, 3)
    assert some[1:].tolist() == MATRIX[[7, 90]].tolist()
    assert some[3:].shape == (0, 3)
    assert select(MATRIX, np.array([5, 7]))[:].tolist() == MATRIX[[5, 7]].tolist()


def test_values_come_in_native_order(tmp_path: Path) -> None:
    rows = all_rows(on_disk(np.array([[256, -2]], ">i2"), tmp_path / "big-endian"))
    assert rows.dtype == np.dtype("=i2")
    assert (rows[:].dtype, rows[:].tolist()) == (np.dtype("=i2"), [[256, -2]])


def test_a_file_cut_short_meanwhile_is_an_error(tmp_path: Path) -> None:
    rows = all_rows(on_disk(MATRIX, tmp_path / "cut"))
    (tmp_path / "cut").write_bytes(MATRIX[:50].tobytes())
    assert rows[:50].tolist() == MATRIX[:50].tolist()
    with pytest.raises(DataError, match="cut has become shorter while it was read"):
        rows[49:51]


def test_the_file_is_closed_with_the_last_that_reads_it() -> None:
    file = io.BytesIO()
    rows = all_rows(StoredMatrix(file, (0, 3), float))
    some = select(rows, np.array([], np.int64))
    del rows
    assert not file.closed
    del some
    assert file.closed


@pytest.mark.parametrize("kind", ["scale", "boolean"])
@pytest.mark.parametrize("shared", [False, True])
def test_encoders_see_the_same(stored: Rows, kind: EncoderKind, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcml.inputs.rows.CHUNK_BYTES", 7 * 3 * 8)
    from_file, from_array = (fit_encoder(kind, x, shared=shared) for x in (stored, MATRIX))
    for name, values in from_array.state().items():
        assert from_file.state()[name].tolist() == values.tolist()
    view = encoded(from_file, stored)
    assert (view.shape, view.dtype.name, len(view)) == ((100, 3), "float32", 100)
    assert view[3:40].tolist() == from_array.encode(MATRIX)[3:40].tolist()
    assert view[np.array([8, 2])].tolist() == from_array.encode(MATRIX)[[8, 2]].tolist()


def test_channels_of_images_in_memory_are_made_when_they_are_read() -> None:
    images = np.random.default_rng(0).random((50, 12))
    encoder = ChannelEncoder(fit_encoder("scale", images), (3, 4), ("grey", "x+"))
    view = encoded(encoder, images)
    assert isinstance(view, EncodedRows)
    assert (view.shape, view[7:9].tolist()) == ((50, 24), encoder.encode(images)[7:9].tolist())
    images[31, 5] = np.nan
    with pytest.raises(DataError, match="row 31, column 5"):
        encoded(encoder, images)


def test_a_value_that_is_not_finite_is_found_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcml.inputs.rows.CHUNK_BYTES", 7 * 3 * 8)
    matrix = MATRIX.copy()
    matrix[61, 2] = np.nan
    with pytest.raises(DataError, match=r"row 61, column 2 \('width'\) is nan"):
        check_features(all_rows(on_disk(matrix, tmp_path / "hole")), 3, ("age", "height", "width"))
