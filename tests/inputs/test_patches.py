"""Patches by hand, by loops over places, and by the textbook's whitening."""

from itertools import product

import numpy as np
import pytest

from lcml.errors import FormatError, SettingsError
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import ScaleEncoder
from lcml.inputs.patches import Patches, PatchSpec, fit_patches
from lcml.inputs.registry import stored_encoder

SPEC = PatchSpec(5, (3, 2), (1, 2), (2, 3), (1, 1))


def grey(n: int, shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, *shape)).astype(np.float32) ** 2


def drawn(spec: PatchSpec, n_images: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    found = generator.normal(0, 0.3, (spec.count, n_images, *spec.size))
    found -= found.mean(axis=(1, 2, 3), keepdims=True)
    return found.astype(np.float32), generator.normal(0, 0.1, spec.count).astype(np.float32)


def encoder(patches: Patches, n_images: int, pool: int = 1) -> ChannelEncoder:
    shape = (n_images, *patches.image_size)
    size = int(np.prod(shape))
    return ChannelEncoder(ScaleEncoder(np.zeros(size), np.ones(size)), shape, ("grey", "x+"), pool, (patches,))


def test_one_filter_by_hand() -> None:
    """Of 1 x 2 windows, roots (1/2, 0): their mean is 1/4, variance 1/16, and the filter (1, -1) has 1/2 of them."""
    spec, filters = PatchSpec(1, (1, 2), grid=(1, 2), overlap=(0, 0)), np.array([[[[1, -1]]]], np.float32)
    patches = Patches(spec, filters, np.array([0.125], np.float32), (1, 4))
    q = np.array([[[[0.25, 0, 0.25, 0.25]]]], np.float32)
    r = 0.5 / np.sqrt(1 / 16 + 0.01)
    left = (r - 0.125 - 1 / 16) / 2, (r + 0.125 - 1 / 16) / 2
    right = 0, 0.125 - 1 / 16
    expected = np.sqrt([min(left[0], 0.5), min(left[1], 0.5), *right])
    np.testing.assert_allclose(patches.encode(q)[0], expected, atol=1e-6)
    assert patches.names("patch ") == [f"patch 0{sign} in (0,{cell})" for cell in range(2) for sign in "+-"]


def test_every_output_is_the_root_of_a_mean_over_the_places_of_its_cell() -> None:
    """Places are rows 0 to 3 and columns 0, 2, 4, 6; by row 0 and 1 | 2 and 3, of which each reaches one over."""
    q = grey(3, (2, 6, 8))
    weights, offsets = drawn(SPEC, 2)
    patches = Patches(SPEC, weights, offsets, (6, 8))
    found = patches.encode(q).reshape(3, 5, 6, 2)
    of_rows = {0: {0: 3, 1: 2, 2: 1}, 1: {1: 1, 2: 2, 3: 3}}
    of_columns = {0: {0: 3, 1: 2, 2: 1}, 1: {1: 1, 2: 1, 3: 1}, 2: {2: 1, 3: 2}}
    for image, k, (i, j) in product(range(3), range(5), product(range(2), range(3))):
        plus = minus = total = 0.0
        for (row, a), (column, b) in product(of_rows[i].items(), of_columns[j].items()):
            p = np.sqrt(q[image, :, row : row + 3, 2 * column : 2 * column + 2].astype(float))
            r = np.sum(weights[k] * (p - p.mean())) / np.sqrt(p.var() + 0.01) - offsets[k]
            plus += a * b * min(1, max(0, r - 1 / 16))
            minus += a * b * min(1, max(0, -r - 1 / 16))
            total += a * b
        expected = np.sqrt([plus / total, minus / total])
        np.testing.assert_allclose(found[image, k, 3 * i + j], expected, atol=2e-3)
    np.testing.assert_allclose(patches.pixels.sum(axis=(1, 2)), 1)
    by_hand = np.zeros((6, 8))
    for (row, a), (column, b) in product(of_rows[1].items(), of_columns[2].items()):
        by_hand[row : row + 3, 2 * column : 2 * column + 2] += a * b / (6 * 3 * 6)
    np.testing.assert_allclose(patches.pixels[5], by_hand)


def test_filters_are_whitened_windows_in_units_of_their_deviation() -> None:
    """Correlations of all windows with what was drawn, whitened as in a textbook, are the same up to one factor."""
    q = grey(40, (1, 6, 6))
    spec = PatchSpec(7, (3, 3), grid=(2, 2))
    patches = fit_patches(spec, q, seed=3)
    p = np.lib.stride_tricks.sliding_window_view(np.sqrt(q[:, 0]), (3, 3), axis=(1, 2)).reshape(-1, 9).astype(float)
    z = (p - p.mean(axis=1, keepdims=True)) / np.sqrt(p.var(axis=1, keepdims=True) + 0.01)
    u, s, _ = np.linalg.svd(np.cov(z.T))
    white = (z - z.mean(axis=0)) @ u @ np.diag(1 / np.sqrt(s + 0.1)) @ u.T
    r = z @ patches.filters.reshape(7, 9).T - patches.offsets
    assert np.std(r) == pytest.approx(0.25, rel=1e-3)
    np.testing.assert_allclose(patches.filters.sum(axis=(1, 2, 3)), 0, atol=1e-5)
    units = white / np.linalg.norm(white, axis=1, keepdims=True)
    for k in range(7):
        correlations = white @ units.T
        scaled = correlations * (0.25 / np.std(correlations, axis=0))
        one = min(range(len(units)), key=lambda i: float(np.abs(r[:, k] / np.std(r[:, k]) * 0.25 - scaled[:, i]).max()))
        np.testing.assert_allclose(r[:, k] / np.std(r[:, k]) * 0.25, scaled[:, one], atol=1e-3)
    again = fit_patches(spec, q, seed=3)
    assert patches.filters.tobytes() == again.filters.tobytes()
    assert patches.filters.tobytes() != fit_patches(spec, q, seed=4).filters.tobytes()


@pytest.mark.parametrize("pool", [1, 2])
def test_the_encoder_has_planes_of_patches_behind_its_channels(pool: int) -> None:
    weights, offsets = drawn(SPEC, 2)
    patches = Patches(SPEC, weights, offsets, (6, 8))
    with_patches = encoder(patches, 2, pool)
    assert isinstance(with_patches.base, ScaleEncoder)
    without = ChannelEncoder(with_patches.base, (2, 6, 8), ("grey", "x+"), pool)
    n_pixels = 48 // pool**2
    n_planes = -(-60 // n_pixels)
    assert with_patches.output_shape == (4 + n_planes, 6 // pool, 8 // pool)
    assert with_patches.of_patches == range(4 * n_pixels, 4 * n_pixels + 60)
    x = grey(70, (2, 6, 8), 5).reshape(70, -1)
    found = with_patches.encode(x)
    np.testing.assert_array_equal(found[:, : 4 * n_pixels], without.encode(x))
    np.testing.assert_array_equal(found[:, 4 * n_pixels :][:, :60], patches.encode(x.reshape(70, 2, 6, 8)))
    assert not found[:, 4 * n_pixels + 60 :].any()
    some = found.copy()
    some[:, 4 * n_pixels :] = 0
    assert with_patches.encode_up_to(x, 4 * n_pixels).tobytes() == some.tobytes()
    assert with_patches.encode_up_to(x, 4 * n_pixels + 1).tobytes() == found.tobytes()
    names = with_patches.variable_names([])
    assert len(names) == with_patches.n_outputs
    assert names[4 * n_pixels + 1] == "patch 0- in (0,0)"
    assert names[4 * n_pixels + 60 :] == ("nothing",) * (n_planes * n_pixels - 60)
    blocks = patches.pixels[5].reshape(6 // pool, pool, 8 // pool, pool).sum(axis=(1, 3))
    np.testing.assert_allclose(with_patches.pixels_of_patch(2 * 6 + 2 * 5 + 1), blocks)
    again = stored_encoder("channels", dict(with_patches.state()))
    assert again.encode(x).tobytes() == found.tobytes()


def test_several_kinds_are_told_apart() -> None:
    weights, offsets = drawn(SPEC, 1)
    other = PatchSpec(1, (2, 2), grid=(1, 1))
    one = np.array([[[[1, -1], [0, 0]]]], np.float32), np.zeros(1, np.float32)
    kinds = Patches(SPEC, weights, offsets, (6, 8)), Patches(other, *one, (6, 8))
    base = ScaleEncoder(np.zeros(48), np.ones(48))
    both = ChannelEncoder(base, (6, 8), ("grey",), 1, kinds)
    names = both.variable_names([])
    assert (names[48], names[108], names[109]) == ("patch 0/0+ in (0,0)", "patch 1/0+ in (0,0)", "patch 1/0- in (0,0)")
    np.testing.assert_allclose(both.pixels_of_patch(61), kinds[1].pixels[0])
    again = stored_encoder("channels", dict(both.state()))
    x = grey(4, (1, 6, 8)).reshape(4, -1)
    np.testing.assert_array_equal(again.encode(x)[:, 108:110], kinds[1].encode(x.reshape(4, 1, 6, 8)))


def test_damaged_patches_are_refused() -> None:
    weights, offsets = drawn(SPEC, 2)
    state = dict(encoder(Patches(SPEC, weights, offsets, (6, 8)), 2).state())
    for change in (
        {"patches0_offsets": np.zeros(4, np.float32)},
        {"patches0_filters": np.zeros((5, 2, 3), np.float32)},
        {"patches0_filters": np.full((5, 2, 3, 2), np.nan, np.float32)},
        {"patches0_layout": np.array([0, 1, 2, 2, 0, 0], np.int32)},
        {"patches0_layout": np.ones(6)},
        {"patches1_filters": np.zeros((5, 2, 3, 2), np.float32)},
        {"image_shape": np.array([2, 2, 24], np.int32)},
    ):
        with pytest.raises(FormatError, match=r"patches|places"):
            stored_encoder("channels", state | change)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (PatchSpec(2, (7, 7), grid=(1, 1)), "patches: 0 rows of places do not make 1 rows of cells"),
        (
            PatchSpec(2, (3, 3), grid=(2, 4)),
            "patches: 4 columns of places do not make 4 columns of cells with an overlap",
        ),
        (PatchSpec(2000, (3, 3), grid=(2, 2)), "windows of the training images show anything, 2000 filters were asked"),
    ],
)
def test_what_cannot_be_drawn_is_refused(spec: PatchSpec, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        fit_patches(spec, grey(10, (1, 6, 6)), 0)


def test_even_images_have_no_patches() -> None:
    with pytest.raises(SettingsError, match="patches: 0 windows of the training images show anything"):
        fit_patches(PatchSpec(1, (3, 3), grid=(1, 1)), np.full((10, 1, 6, 6), 0.5, np.float32), 0)
