"""Channels: an image as several images of probabilities - grey levels, edges by direction, contrast, thresholds.

With q(y, x) the pixel of a plain encoder, y pointing down, pixels beyond the border equal to the nearest one within:

    grey           q
    x+  x-         max(0, +-(q(y, x+1) - q(y, x-1)))        brighter, darker to the right
    y+  y-         max(0, +-(q(y+1, x) - q(y-1, x)))        brighter, darker below
    d+  d-         max(0, +-(q(y+1, x+1) - q(y-1, x-1)))    brighter, darker below to the right
    e+  e-         max(0, +-(q(y+1, x-1) - q(y-1, x+1)))    brighter, darker below to the left
    contrast+ -    min(1, max(0, +-2 (q - mean of the 5 x 5 pixels around)))
    t25  t50  t75  min(1, max(0, 4 (q - t) + 1/2)): a soft step of width 1/4 around t = 0.25, 0.5, 0.75
    root-grey, root-x+, ..., root-e-    the square roots of grey levels and edges: faint ones count for more

Each is one 5 x 5 stencil and an offset, cut off at 0 and 1, or the square root of that; the exporter makes them one
convolution.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lcml.errors import FormatError, SettingsError
from lcml.inputs.encoders import Encoder, PlainEncoder, encoder_from_arrays
from lcml.inputs.rows import Matrix, check_features

RADIUS = 2
"""A stencil reads pixels up to this far to every side."""

CONTRAST_GAIN = 2.0
"""A pixel that differs from its surroundings by half the range has full contrast."""

STEP_WIDTH = 0.25
"""Range of q over which a soft threshold goes from 0 to 1: the steps around 0.25, 0.5 and 0.75 touch."""

CHUNK_BYTES = 1 << 18
"""Work on so many bytes of pixels at a time: they stay in a CPU's cache."""


@dataclass(frozen=True, eq=False)
class Stencil:
    """min(1, max(0, offset + sum of kernel[RADIUS + dy, RADIUS + dx] q(y + dy, x + dx))), with `root` its root."""

    kernel: NDArray[np.float32]
    offset: float = 0.0
    root: bool = False

    def terms(self) -> Iterator[tuple[int, int, np.float32]]:
        """Row and column in the kernel, and coefficient, where it is not 0."""
        return ((int(y), int(x), self.kernel[y, x]) for y, x in np.argwhere(self.kernel))


def _stencils() -> dict[str, Stencil]:
    size = 2 * RADIUS + 1
    centre = np.zeros((size, size), np.float32)
    centre[RADIUS, RADIUS] = 1
    stencils = {"grey": Stencil(centre)}
    for name, (dy, dx) in {"x": (0, 1), "y": (1, 0), "d": (1, 1), "e": (1, -1)}.items():
        difference = np.roll(centre, (dy, dx), (0, 1)) - np.roll(centre, (-dy, -dx), (0, 1))
        stencils |= {f"{name}+": Stencil(difference), f"{name}-": Stencil(-difference)}
    roots = {f"root-{name}": Stencil(stencil.kernel, root=True) for name, stencil in stencils.items()}
    contrast = np.float32(CONTRAST_GAIN) * (centre - np.float32(1 / centre.size))
    stencils |= {"contrast+": Stencil(contrast), "contrast-": Stencil(-contrast)}
    for percent in (25, 50, 75):
        slope = 1 / STEP_WIDTH
        stencils[f"t{percent}"] = Stencil(np.float32(slope) * centre, 0.5 - slope * percent / 100)
    return stencils | roots


CHANNELS: Mapping[str, Stencil] = MappingProxyType(_stencils())
"""Every channel by name. A model file stores places in this order: append, never reorder."""


def check_channels(names: Sequence[str]) -> None:
    """SettingsError where a channel is unknown or named twice."""
    unknown = [name for name in names if name not in CHANNELS]
    if unknown or len(set(names)) < len(names):
        found = f"unknown {unknown[0]!r}" if unknown else f"found {tuple(names)}"
        raise SettingsError(f"channels: {found}; choose one or more, each once, of {', '.join(CHANNELS)}")


@dataclass(frozen=True, eq=False)
class ChannelEncoder:
    """Channels of the probabilities that `base` makes of an image.

    image_shape: (height, width), or (channels, height, width) where an example holds several images one after another;
    kept in the longer form. channels: names in `CHANNELS`. Raises SettingsError where they do not fit each other.
    """

    base: PlainEncoder
    image_shape: tuple[int, ...]
    channels: tuple[str, ...]
    kind: ClassVar[Literal["channels"]] = "channels"

    def __post_init__(self) -> None:
        shape = (1, *self.image_shape) if len(self.image_shape) == 2 else self.image_shape
        object.__setattr__(self, "image_shape", shape)
        if len(shape) != 3 or min(shape) < 1 or np.prod(shape) != self.base.n_features:
            raise SettingsError(
                f"channels: images of shape {shape} do not fit the {self.base.n_features} features of an example; give "
                "(height, width) or (channels, height, width)"
            )
        check_channels(self.channels)
        if not self.channels:
            raise SettingsError(f"channels: found none; choose one or more of {', '.join(CHANNELS)}")

    @property
    def n_features(self) -> int:
        return self.base.n_features

    @cached_property
    def output_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of what `encode` returns: all channels of the first raw image, then the next's."""
        n_images, height, width = self.image_shape
        return n_images * len(self.channels), height, width

    @property
    def n_outputs(self) -> int:
        """Probabilities per example."""
        return self.n_features * len(self.channels)

    def encode(self, x: ArrayLike | Matrix) -> NDArray[np.float32]:
        """Probabilities (n, n_outputs), float32, C-contiguous, of raw features (n, n_features), in `output_shape`.

        Raises DataError as `check_features`.
        """
        raw = check_features(x, self.n_features)
        n_images, height, width = self.image_shape
        encoded = np.empty((len(raw), n_images, len(self.channels), height, width), np.float32)
        step = max(1, CHUNK_BYTES // (4 * self.n_features))
        for rows in (slice(start, start + step) for start in range(0, len(raw), step)):
            q = self.base.encode(raw[rows]).reshape(-1, *self.image_shape)
            padded = np.pad(q, ((0, 0), (0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS)), mode="edge")
            for k, name in enumerate(self.channels):
                encoded[rows, :, k] = _response(padded, CHANNELS[name], height, width)
        return encoded.reshape(len(raw), self.n_outputs)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What the model file stores; `stored_encoder` is the way back."""
        places = [list(CHANNELS).index(name) for name in self.channels]
        own = {name: np.array(values, np.int32) for name, values in zip(_OWN, (self.image_shape, places), strict=True)}
        return {**self.base.arrays(), **own}


def stored_encoder(kind: str, arrays: Mapping[str, ArrayLike]) -> Encoder:
    """The encoder of any kind whose `kind` and `arrays()` these are; FormatError where they describe none."""
    if kind != ChannelEncoder.kind:
        return encoder_from_arrays(kind, arrays)
    own = {name: np.asarray(arrays[name]) for name in _OWN if name in arrays}
    plain = {name: array for name, array in arrays.items() if name not in own}
    names = list(CHANNELS)
    whole = len(own) == len(_OWN) and all(a.dtype.kind == "i" and a.ndim == 1 and np.all(a >= 0) for a in own.values())
    if not whole or np.any(own["channels"] >= len(names)):
        raise FormatError(
            f"encoder 'channels': expected {' and '.join(_OWN)}, channels below {len(names)}, found {own}; the model "
            "file is damaged or newer than this lcml"
        )
    base = encoder_from_arrays("boolean" if "threshold" in plain else "scale", plain)
    try:
        chosen = tuple(names[place] for place in own["channels"])
        return ChannelEncoder(base, tuple(own["image_shape"].tolist()), chosen)
    except SettingsError as error:
        raise FormatError(f"encoder {error}") from error


_OWN = ("image_shape", "channels")


def _response(padded: NDArray[np.float32], stencil: Stencil, height: int, width: int) -> NDArray[np.float32]:
    """The stencil at every pixel of images (n, n_images, height, width) that have a border of RADIUS around them."""
    response = np.full((*padded.shape[:2], height, width), stencil.offset, np.float32)
    for y, x, coefficient in stencil.terms():
        response += coefficient * padded[:, :, y : y + height, x : x + width]
    np.clip(response, 0, 1, out=response)
    return np.sqrt(response, out=response) if stencil.root else response
