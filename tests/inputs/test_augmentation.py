"""Augmentation: copies by hand, by other libraries, and the same whatever is asked for first."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage
from scipy.interpolate import BSpline

from lcml.errors import SettingsError
from lcml.inputs import augmentation
from lcml.inputs.augmentation import Augmentation, augmented

EVERYTHING = Augmentation(copies=3, shift=2, rotation=15, scale=0.2, shear=10, elastic=2, elastic_spacing=3, flip=True)


def images(n: int, shape: tuple[int, ...], dtype: Any = np.uint8, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(10, 256, (n, int(np.prod(shape)))).astype(dtype)


def shifted(image: NDArray[Any], down: int, right: int, background: Any) -> NDArray[Any]:
    result = np.full_like(image, background)
    height, width = image.shape
    for y in range(height):
        for x in range(width):
            if 0 <= y - down < height and 0 <= x - right < width:
                result[y, x] = image[y - down, x - right]
    return result


@pytest.fixture
def extreme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw is the largest possible."""
    monkeypatch.setattr(augmentation, "_uniform", lambda seed, rows, count: np.ones((len(rows), count)))


def test_the_first_rows_are_the_images_and_labels_are_tiled() -> None:
    x = images(5, (6, 6))
    rows = augmented(x, (6, 6), EVERYTHING, 7)
    assert (len(rows), rows.shape, rows.dtype, rows.ndim) == (20, (20, 36), np.dtype(np.uint8), 2)
    assert rows[:5].tobytes() == x.tobytes()
    assert not any((rows[first : first + 5] == x).all() for first in (5, 10, 15))


def test_copies_without_distortion_are_the_images() -> None:
    x = images(4, (3, 5), np.float32) / 7
    assert np.asarray(augmented(x, (3, 5), Augmentation(copies=2), 0)).tobytes() == np.tile(x, (3, 1)).tobytes()


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_eight_copies_are_all_shifts_by_one(dtype: Any) -> None:
    x = images(3, (4, 5), dtype)
    rows = augmented(x, (4, 5), Augmentation(copies=8, shift=1), 3)
    for i, image in enumerate(x):
        moves = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
        expected = {shifted(image.reshape(4, 5), *move, x.min()).tobytes() for move in moves}
        assert {rows[i + 3 * copy].tobytes() for copy in range(1, 9)} == expected


def test_four_copies_across_are_the_neighbours() -> None:
    x = images(3, (6, 5))
    rows = augmented(x, (6, 5), Augmentation(copies=4, shift=2, cross=True), 3)
    for i, image in enumerate(x):
        moves = [(0, 2), (0, -2), (2, 0), (-2, 0)]
        expected = {shifted(image.reshape(6, 5), *move, x.min()).tobytes() for move in moves}
        assert {rows[i + 3 * copy].tobytes() for copy in range(1, 5)} == expected


def test_different_images_begin_with_different_shifts() -> None:
    x = np.tile(images(1, (5, 5)), (200, 1))
    copies = augmented(x, (5, 5), Augmentation(copies=1, shift=1), 0)[200:]
    found, counts = np.unique(copies, axis=0, return_counts=True)
    assert len(found) == 8
    assert counts.min() > 10


def test_odd_copies_are_mirrored() -> None:
    x = images(4, (2, 3, 5))
    rows = augmented(x, (2, 3, 5), Augmentation(copies=3, flip=True), 0)
    mirrored = x.reshape(4, 2, 3, 5)[..., ::-1].reshape(4, -1)
    assert rows[4:].tolist() == np.concatenate([mirrored, x, mirrored]).tolist()


@pytest.mark.usefixtures("extreme")
@pytest.mark.parametrize(("degrees", "turns"), [(90, 1), (180, 2)])
def test_rotations_by_right_angles(degrees: int, turns: int) -> None:
    x = images(2, (7, 7))
    found = augmented(x, (7, 7), Augmentation(copies=1, rotation=degrees), 0)[2:].reshape(-1, 7, 7)
    assert found.tolist() == np.rot90(x.reshape(-1, 7, 7), turns, axes=(1, 2)).tolist()


@pytest.mark.usefixtures("extreme")
def test_affine_copies_are_those_of_scipy() -> None:
    x = images(2, (9, 12), np.float64)
    settings = Augmentation(copies=1, rotation=20, scale=0.25, shear=12)
    cos, sin, tan = np.cos(np.radians(20)), np.sin(np.radians(20)), np.tan(np.radians(12))
    matrix = np.array([[cos, sin], [-sin, cos]]) @ np.array([[1, 0], [tan, 1]]) * 1.25
    centre = np.array([4, 5.5])
    for image, copy in zip(x, augmented(x, (9, 12), settings, 0)[2:], strict=True):
        expected = ndimage.affine_transform(
            np.pad(image.reshape(9, 12), 1, constant_values=x.min()),
            matrix,
            centre + 1 - matrix @ (centre + 1),
            order=1,
            mode="nearest",
        )[1:-1, 1:-1]
        np.testing.assert_allclose(copy.reshape(9, 12), expected, rtol=0, atol=2e-3)


def test_elastic_displacement_is_bounded_smooth_and_between_control_points() -> None:
    settings = Augmentation(copies=1, elastic=2.5, elastic_spacing=4)
    rows = augmented(images(50, (11, 17)), (11, 17), settings, 0)
    y, x = rows._places(np.arange(50, 100))
    moved = np.stack([y - np.arange(11)[:, None], x - np.arange(17)])
    assert np.abs(moved).max() <= 2.5
    assert np.abs(moved).max() > 1
    assert np.abs(np.diff(moved, axis=-1)).max() <= 2 * 2.5 / 4
    # At whole multiples of the spacing three control points weigh 1, 4, 1 sixths; scipy knows what is between
    spline = augmentation._spline(9, 4)
    np.testing.assert_allclose(spline.sum(axis=1), 1)
    np.testing.assert_allclose(spline[4], np.array([0, 1, 4, 1, 0, 0]) / 6, atol=1e-15)
    knots = 4.0 * np.arange(-3, 7)
    expected = BSpline.design_matrix(np.arange(9.0), knots, 3).toarray()
    np.testing.assert_allclose(spline, expected, atol=1e-12)


@given(st.lists(st.integers(0, 27), max_size=9), st.integers(1, 5))
def test_rows_do_not_depend_on_what_else_is_asked_for(rows: list[int], step: int) -> None:
    x = images(7, (5, 6), np.float32)
    everything = np.asarray(augmented(x, (5, 6), EVERYTHING, 11))
    again = augmented(x, (5, 6), EVERYTHING, 11)
    assert again[np.array(rows, int)].tobytes() == everything[np.array(rows, int)].tobytes()
    assert again[3::step].tobytes() == everything[3::step].tobytes()
    assert again[-1].tobytes() == everything[-1].tobytes()
    mask = np.isin(np.arange(28), rows)
    assert again[mask].tobytes() == everything[mask].tobytes()


def test_chunks_do_not_change_rows_and_seeds_do(monkeypatch: pytest.MonkeyPatch) -> None:
    x = images(7, (5, 6))
    whole = augmented(x, (5, 6), EVERYTHING, 1)[:]
    assert augmented(x, (5, 6), EVERYTHING, 2)[:].tobytes() != whole.tobytes()
    monkeypatch.setattr(augmentation, "CHUNK_BYTES", 8 * 30 * 2)
    assert augmented(x, (5, 6), EVERYTHING, 1)[:].tobytes() == whole.tobytes()


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.float32, np.float64])
def test_type_and_range_are_kept(dtype: Any) -> None:
    x = (np.random.default_rng(0).random((20, 30)) * 5 - (0 if np.dtype(dtype).kind in "bu" else 3)).astype(dtype)
    copies = augmented(x, (5, 6), EVERYTHING, 0)[20:]
    assert copies.dtype == x.dtype
    assert copies.min() == x.min()
    assert copies.max() <= x.max()


def test_draws_are_uniform() -> None:
    draws = augmentation._uniform(5, np.arange(2000), 10)
    assert len(np.unique(draws)) == draws.size
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    assert np.abs(counts - 1000).max() < 130  # four standard deviations
    correlation = np.corrcoef(draws.T) - np.eye(10)
    assert np.abs(correlation).max() < 0.1


def test_a_sequence_moves_along_its_columns_only() -> None:
    x = images(4, (1, 9), np.float64)
    rows = augmented(x, (1, 9), Augmentation(copies=2, shift=1), 0)
    for i, image in enumerate(x):
        expected = {shifted(image[None], 0, right, x.min()).tobytes() for right in (-1, 1)}
        assert {rows[i + 4].tobytes(), rows[i + 8].tobytes()} == expected
    constant = np.full((1, 9), 3.0)
    stretched = augmented(constant, (1, 9), Augmentation(copies=5, elastic=3, rotation=30), 0)[:]
    assert (stretched == 3).all()


def test_no_images_have_no_copies() -> None:
    assert augmented(np.empty((0, 12)), (3, 4), EVERYTHING, 0)[:].shape == (0, 12)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"copies": -1}, "copies: expected a number of 0 to"),
        ({"copies": 1.5}, "copies: expected an integer"),
        ({"shift": True}, "shift: expected"),
        ({"rotation": float("nan")}, "rotation: expected a number of 0 to 180"),
        ({"scale": 1}, "scale: expected a number of 0 to 0.9"),
        ({"elastic": -1}, "elastic: expected"),
        ({"elastic_spacing": 0}, "elastic_spacing: expected a number of 1 to"),
    ],
)
def test_settings_out_of_range(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Augmentation(**values)


@pytest.mark.parametrize(
    ("shape", "settings", "message"),
    [
        ((2, 4), Augmentation(), r"images of shape \(2, 4\) do not fit features of shape \(5, 6\)"),
        ((6,), Augmentation(), r"images of shape \(6,\) do not fit"),
        ((2, 3), Augmentation(shift=2), "less than the 2 pixels of the image, found 2"),
    ],
)
def test_images_that_do_not_fit(shape: Any, settings: Augmentation, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        augmented(np.zeros((5, 6)), shape, settings, 0)
