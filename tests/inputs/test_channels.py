"""Channels of tiny images by hand, and of random ones against scipy.ndimage."""

from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from lcml.errors import DataError, FormatError, SettingsError
from lcml.inputs.channels import CHANNELS, ChannelEncoder
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder, fit_encoder
from lcml.inputs.registry import stored_encoder


def percent(n_features: int) -> ScaleEncoder:
    return ScaleEncoder(np.zeros(n_features), np.full(n_features, 100.0))


def channels_of(image: Any, *names: str, pool: int = 1) -> list[Any]:
    """The named channels of one image of values 0 to 100, in hundredths."""
    pixels = np.array(image, float)
    encoder = ChannelEncoder(percent(pixels.size), pixels.shape, names, pool)
    found = encoder.encode(pixels.reshape(1, -1)).reshape(encoder.output_shape)
    return [np.round(100 * channel).astype(int).tolist() for channel in found.astype(float)]


def test_horizontal_edges_by_hand() -> None:
    # The border repeats: the first pixel of a row has itself to its left.
    grey, right, left = channels_of([[0, 10, 60], [80, 80, 0]], "grey", "x+", "x-")
    assert grey == [[0, 10, 60], [80, 80, 0]]
    assert right == [[10, 60, 50], [0, 0, 0]]
    assert left == [[0, 0, 0], [0, 80, 80]]


def test_vertical_edges_by_hand() -> None:
    below, above = channels_of([[0, 30], [10, 20], [60, 0]], "y+", "y-")
    assert below == [[10, 0], [60, 0], [50, 0]]
    assert above == [[0, 10], [0, 30], [0, 20]]


def test_diagonal_edges_by_hand() -> None:
    # At the centre: 90 below to the right, 10 above to the left, 20 below to the left, 50 above to the right
    image = [[10, 0, 50], [0, 0, 0], [20, 0, 90]]
    assert [channel[1][1] for channel in channels_of(image, "d+", "d-", "e+", "e-")] == [80, 0, 0, 30]
    # At the top left corner, d compares (1, 1) with (0, 0), e (1, 0) with (0, 1)
    assert [c[0][0] for c in channels_of([[10, 70], [20, 40]], "d+", "d-", "e+", "e-")] == [30, 0, 0, 50]


def test_contrast_by_hand() -> None:
    # One bright pixel: its 5 x 5 surroundings have the mean 100 / 25 = 4, so it has 2 (100 - 4) > 100, they 2 (0 - 4)
    image = np.zeros((7, 7), int)
    image[3, 3] = 100
    bright, dark = (np.array(channel) for channel in channels_of(image, "contrast+", "contrast-"))
    assert bright[3, 3] == 100
    assert bright.sum() == 100
    assert dark[1:6, 1:6].sum() == 24 * 8
    assert dark.sum() == 24 * 8


def test_thresholds_by_hand() -> None:
    values = [[0, 12, 25, 30, 38, 50, 60, 70, 75, 88, 100]]
    assert channels_of(values, "t25", "t50", "t75") == [
        [[0, 0, 50, 70, 100, 100, 100, 100, 100, 100, 100]],
        [[0, 0, 0, 0, 2, 50, 90, 100, 100, 100, 100]],
        [[0, 0, 0, 0, 0, 0, 0, 30, 50, 100, 100]],
    ]


def test_roots_by_hand() -> None:
    image = [[0, 9, 25], [64, 64, 0]]
    grey, right, above = channels_of(image, "root-grey", "root-x+", "root-y-")
    assert grey == [[0, 30, 50], [80, 80, 0]]
    assert right == [[30, 50, 40], [0, 0, 0]]
    assert above == [[0, 0, 50], [0, 0, 50]]


def test_blocks_are_averaged_before_roots_are_taken() -> None:
    image = [[0, 8, 64, 64], [0, 8, 64, 64]]
    grey, root, right = channels_of(image, "grey", "root-grey", "x+", pool=2)
    assert grey == [[4, 64]]
    assert root == [[20, 80]]
    assert right == [[(8 + 64) // 2, 56 // 2]]  # cut off at 0 and 1 before


def by_scipy(image: Any, name: str) -> Any:
    """A channel of an image in [0, 1], in double precision."""
    if name.startswith("root-"):
        return np.sqrt(by_scipy(image, name.removeprefix("root-")))
    if name == "grey":
        return image
    if name.startswith("t"):
        return np.clip(4 * (image - int(name[1:]) / 100) + 0.5, 0, 1)
    if name.startswith("contrast"):
        response = 2 * (image - ndimage.uniform_filter(image, 5, mode="nearest"))
    else:
        kernel = {
            "x": [[0, 0, 0], [-1, 0, 1], [0, 0, 0]],
            "y": [[0, -1, 0], [0, 0, 0], [0, 1, 0]],
            "d": [[-1, 0, 0], [0, 0, 0], [0, 0, 1]],
            "e": [[0, 0, -1], [0, 0, 0], [1, 0, 0]],
        }[name[0]]
        response = ndimage.correlate(image, np.array(kernel, float), mode="nearest")
    return np.clip(response if name.endswith("+") else -response, 0, 1)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 9), (1, 2, 3), (1, 7, 5), (3, 6, 4)])
def test_every_channel_is_that_of_scipy(shape: tuple[int, int, int]) -> None:
    generator = np.random.default_rng(3)
    images = generator.random((4, *shape)) * (generator.random((4, *shape)) < 0.7)
    images[0] = np.round(images[0])
    names = tuple(CHANNELS)
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(images[0].size), np.ones(images[0].size)), shape, names)
    assert encoder.output_shape == (shape[0] * len(names), *shape[1:])
    found = encoder.encode(images.reshape(4, -1))
    assert found.shape == (4, encoder.n_outputs)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    expected = [[[by_scipy(one, name) for name in names] for one in image] for image in images]
    by_channel, wanted = (np.reshape(a, (4, shape[0], len(names), -1)) for a in (found, expected))
    root = np.array([name.startswith("root-") for name in names])
    np.testing.assert_allclose(by_channel[:, :, ~root], wanted[:, :, ~root], rtol=0, atol=1e-6)
    np.testing.assert_allclose(by_channel[:, :, root] ** 2, wanted[:, :, root] ** 2, rtol=0, atol=1e-6)
    assert found.min() >= 0
    assert found.max() <= 1


def test_chunks_do_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(0, 256, (23, 30)).astype(np.uint8)
    encoder = ChannelEncoder(fit_encoder("boolean", x), (5, 6), ("contrast-", "grey", "x+"))
    whole = encoder.encode(x)
    monkeypatch.setattr("lcml.inputs.channels.CHUNK_BYTES", 4 * 30 * 7)
    assert encoder.encode(x).tobytes() == whole.tobytes()
    assert encoder.encode(x[:0]).shape == (0, 90)


def test_bad_examples_are_refused_with_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcml.inputs.channels.CHUNK_BYTES", 1)
    x = np.zeros((5, 6))
    x[3, 2] = np.nan
    with pytest.raises(DataError, match="row 3, column 2 is nan"):
        ChannelEncoder(percent(6), (2, 3), ("x+",)).encode(x)


@pytest.mark.parametrize("base", [percent(12), BooleanEncoder(np.arange(12.0))])
def test_what_is_stored_comes_back(base: Any) -> None:
    encoder = ChannelEncoder(base, (3, 2, 2), ("t75", "grey", "e-"), pool=2)
    assert (encoder.n_features, encoder.n_outputs, base.n_outputs) == (12, 9, 12)
    assert "pool" not in ChannelEncoder(base, (3, 2, 2), ("grey",)).state()  # as files written before it
    again = stored_encoder(encoder.kind, encoder.state())
    assert isinstance(again, ChannelEncoder)
    assert (type(again.base), again.image_shape, again.channels) == (type(base), (3, 2, 2), ("t75", "grey", "e-"))
    x = np.random.default_rng(0).uniform(0, 100, (3, 12))
    assert again.encode(x).tobytes() == encoder.encode(x).tobytes()
    assert type(stored_encoder(base.kind, base.state())) is type(base)


def _stored(**changed: Any) -> dict[str, Any]:
    arrays = {**ChannelEncoder(percent(6), (2, 3), ("grey", "x+")).state(), **changed}
    return {name: array for name, array in arrays.items() if array is not None}


@pytest.mark.parametrize(
    "arrays",
    [
        _stored(channels=None),
        _stored(image_shape=None),
        _stored(low=None),
        _stored(threshold=np.zeros(6)),
        _stored(channels=np.array([0, 99])),
        _stored(channels=np.array([-1, 0])),
        _stored(channels=np.array([0, 0])),
        _stored(channels=np.array([0.0, 1.0])),
        _stored(channels=np.array(0)),
        _stored(image_shape=np.array([2, 3])[None]),
        _stored(image_shape=np.array([1, 2, 4])),
        _stored(image_shape=np.array([6])),
        _stored(pool=np.array([2], np.int32)),
        _stored(pool=np.array([0], np.int32)),
        _stored(pool=np.array([1, 1], np.int32)),
        _stored(pool=np.array([1.5])),
        _stored(high=np.full(6, np.nan)),
    ],
)
def test_nonsense_is_no_encoder(arrays: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="encoder"):
        stored_encoder("channels", arrays)


@pytest.mark.parametrize(
    ("shape", "names", "message"),
    [
        ((2, 4), ("grey",), r"images of shape \(1, 2, 4\) do not fit the 6 features"),
        ((6,), ("grey",), r"images of shape \(6,\)"),
        ((2, 3), ("grey", "green"), "unknown 'green'; choose one or more, each once, of grey, x"),
        ((2, 3), (), "choose one or more"),
        ((2, 3), ("x+", "x+"), "each once"),
    ],
)
def test_what_does_not_fit_is_named(shape: Any, names: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ChannelEncoder(percent(6), shape, names)


def test_blocks_that_do_not_fit_are_named() -> None:
    with pytest.raises(SettingsError, match="pool: images of 2 x 3 pixels cannot be cut into blocks of 2 x 2"):
        ChannelEncoder(percent(6), (2, 3), ("grey",), pool=2)
