"""Encoders against values worked out by hand."""

from typing import Any

import numpy as np
import pytest

from lcml.errors import DataError, FormatError, SettingsError
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder, fit_encoder
from lcml.inputs.registry import stored_encoder


def test_scale_takes_each_columns_range_and_clips() -> None:
    encoder = fit_encoder("scale", [[0.0, -2.0, 7.0], [10.0, 2.0, 7.0]])
    q = encoder.encode([[5, 1, 7], [-3, 4, 9]])
    assert q.tolist() == [[0.5, 0.75, 0.0], [0.0, 1.0, 0.0]]
    assert q.dtype == np.float32
    assert q.flags.c_contiguous


def test_shared_scale_takes_one_range_for_all_pixels() -> None:
    encoder = fit_encoder("scale", np.array([[0, 4], [8, 6]], np.uint8), shared=True)
    assert encoder.encode(np.array([[2, 6]], np.uint8)).tolist() == [[0.25, 0.75]]


def test_shared_scale_takes_a_range_for_every_channel() -> None:
    encoder = fit_encoder("scale", np.array([[0, 4, 50, 10], [8, 6, 20, 30]]), shared=2)
    assert isinstance(encoder, ScaleEncoder)
    assert encoder.low.tolist() == [0, 0, 10, 10]
    assert encoder.high.tolist() == [8, 8, 50, 50]


def test_divide_is_the_raw_value_over_the_divisor() -> None:
    encoder = fit_encoder("divide", np.array([[3, 9]], np.uint8), divisor=255)
    assert encoder.kind == "scale"
    assert encoder.encode([[51, 255]]).tolist() == [[np.float32(0.2), 1.0]]


def test_boolean_threshold_is_the_mean_plus_a_twentieth_of_the_deviation() -> None:
    # Column 0 is 0, 0, 4, 4: mean 2, std 2, threshold 2.1.  Column 1 is constant and always at its own mean.
    encoder = fit_encoder("boolean", np.array([[0, 0.1], [0, 0.1], [4, 0.1], [4, 0.1]]))
    assert isinstance(encoder, BooleanEncoder)
    assert encoder.threshold == pytest.approx([2.1, 0.1])
    assert encoder.encode([[2.0, 0.1], [2.2, 0.0]]).tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_chunks_do_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(0, 256, (101, 7)).astype(np.uint8)
    whole = [fit_encoder(kind, x).encode(x) for kind in ("scale", "boolean")]
    monkeypatch.setattr("lcml.inputs.rows.CHUNK_BYTES", 8 * 7 * 10)
    assert [fit_encoder(kind, x).encode(x).tobytes() for kind in ("scale", "boolean")] == [q.tobytes() for q in whole]


@pytest.mark.parametrize("kind", ["scale", "boolean"])
def test_arrays_round_trip_exactly_and_are_read_only(kind: Any) -> None:
    x = np.random.default_rng(1).normal(size=(20, 3))
    encoder = fit_encoder(kind, x)
    again = stored_encoder(encoder.kind, encoder.state())
    assert type(again) is type(encoder)
    assert again.n_features == 3
    assert again.encode(x).tobytes() == encoder.encode(x).tobytes()
    assert not any(array.flags.writeable for array in again.state().values())


def test_no_rows_encode_to_no_rows() -> None:
    assert fit_encoder("scale", [[1.0, 2.0]]).encode(np.empty((0, 2))).shape == (0, 2)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[1.0, 2.0, 3.0]], "expected 2 features per example, found 3"),
        ([1.0, 2.0], r"found shape \(2,\)"),
        ([[0.0, 1.0], [2.0, np.nan]], "row 1, column 1 is nan"),
        ([[np.inf, 1.0]], "row 0, column 0 is inf"),
        ([["a", "b"]], "must be numbers"),
        ([[1.0, None]], "must be numbers"),
        ([[1.0, 2.0], [3.0]], "must be a matrix"),
    ],
)
def test_bad_input_is_refused_with_its_place(x: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_encoder("scale", [[0.0, 0.0], [1.0, 1.0]]).encode(x)


def test_infinity_among_gaps_is_refused_with_its_place() -> None:
    """Rows are encoded in chunks of a few MB: this one is not in the first."""
    x = np.full((3000, 784), np.nan, np.float32)
    x[2000, 5] = -np.inf
    with pytest.raises(DataError, match="row 2000, column 5 is -inf"):
        ScaleEncoder(np.zeros(784), np.ones(784)).encode(x, gaps=True)


def test_extreme_values_are_refused_or_scaled_without_overflow() -> None:
    with pytest.raises(DataError, match="column 0 cannot be scaled"):
        fit_encoder("scale", [[-1.7e308], [1.7e308]])
    with pytest.raises(DataError, match=r"column 1 \('size'\) cannot be scaled"):
        fit_encoder("scale", [[0, -1.7e308], [1, 1.7e308]], feature_names=("age", "size"))
    with pytest.raises(DataError, match=r"column 1 \('size'\) has the threshold inf"):
        fit_encoder("boolean", [[0, 1.7e308], [1, -1.7e308], [2, 1.7e308]], feature_names=("age", "size"))
    with pytest.raises(DataError, match="column 0 has the threshold inf; expected a finite number"):
        fit_encoder("boolean", [[1.7e308], [-1.7e308], [1.7e308]])
    assert ScaleEncoder(np.array([1e308]), np.array([1.5e308])).encode([[-1.7e308], [1.7e308]]).tolist() == [[0], [1]]


def test_settings_of_an_encoder_are_checked() -> None:
    with pytest.raises(DataError, match="no rows"):
        fit_encoder("scale", np.empty((0, 2)))
    with pytest.raises(SettingsError, match="above 0; found 0"):
        fit_encoder("divide", [[1.0]], divisor=0)
    with pytest.raises(SettingsError, match="belongs to the encoder 'divide'"):
        fit_encoder("scale", [[1.0]], divisor=255)
    with pytest.raises(SettingsError, match="unknown encoder 'log'"):
        fit_encoder("log", [[1.0]])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "arrays"),
    [
        ("spline", {}),
        ("scale", {"low": [0.0]}),
        ("scale", {"low": [2.0], "high": [1.0]}),
        ("scale", {"low": [2.0], "high": [3.0, 4.0]}),
        ("boolean", {"threshold": [np.nan]}),
        ("boolean", {"threshold": [[1.0]]}),
    ],
)
def test_a_damaged_description_is_a_format_error(kind: str, arrays: dict[str, Any]) -> None:
    with pytest.raises(FormatError):
        stored_encoder(kind, arrays)
