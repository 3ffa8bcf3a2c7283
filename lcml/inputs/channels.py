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

Each is one 5 x 5 stencil and an offset, cut off at 0 and 1, or the square root of that, before which an encoder may
average over blocks of pixels; the exporter makes them one convolution.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lcml.arrays import FloatArray
from lcml.errors import FormatError, SettingsError
from lcml.inputs.encoders import PLAIN_ENCODERS, PlainEncoder
from lcml.inputs.encoding import Encoder, State
from lcml.inputs.patches import STATE as PATCHES_STATE
from lcml.inputs.patches import Patches
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
    """min(1, max(0, offset + sum of kernel[RADIUS + dy, RADIUS + dx] q(y + dy, x + dx))), with `root` the root of what
    that is on average over a block."""

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


def image_channels(channels: Sequence[str], n_channels: int) -> list[str]:
    """Names of all `n_channels` images: the same `channels` are made of every raw one, told apart by its number."""
    n_images = n_channels // len(channels)
    images = [""] if n_images == 1 else [f"image {image} " for image in range(n_images)]
    return [image + name for image in images for name in channels]


def pixel_names(channels: Sequence[str], height: int, width: int) -> tuple[str, ...]:
    """channel[row,column] for every pixel of every channel, in the order of the variables."""
    return tuple(f"{name}[{row},{column}]" for name in channels for row in range(height) for column in range(width))


@dataclass(frozen=True, eq=False)
class ChannelEncoder(Encoder):
    """Channels of the probabilities that `base` makes of an image.

    image_shape: (height, width), or (channels, height, width) where an example holds several images one after another;
    kept in the longer form. channels: names in `CHANNELS`; pool: rows and columns of the blocks of pixels over which a
    channel is averaged, 1 for none; patches: what lies behind the channels, in planes of their size, of which the last
    is filled up with zeros. Raises SettingsError where they do not fit each other.
    """

    base: PlainEncoder
    image_shape: tuple[int, ...]
    channels: tuple[str, ...]
    pool: int = 1
    patches: tuple[Patches, ...] = ()
    kind: ClassVar[str] = "channels"

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
        if self.pool < 1 or any(size % self.pool for size in shape[1:]):
            rows, columns = shape[1:]
            raise SettingsError(
                f"pool: images of {rows} x {columns} pixels cannot be cut into blocks of {self.pool} x {self.pool}; "
                "choose a divisor of both"
            )
        if any(each.filters.shape[1] != shape[0] or each.image_size != shape[1:] for each in self.patches):
            raise SettingsError(f"patches: those of other images than of shape {shape}")

    @property
    def n_features(self) -> int:
        return self.base.n_features

    @property
    def n_outputs(self) -> int:
        return int(np.prod(self.output_shape))

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of what `encode` returns: all channels of the first raw image, then the next's,
        then the planes of patches."""
        height, width = (size // self.pool for size in self.image_shape[1:])
        n_planes = -(-sum(each.n_outputs for each in self.patches) // (height * width))
        return self.n_channels + n_planes, height, width

    @property
    def n_channels(self) -> int:
        """How many channels there are in front of the patches."""
        return self.image_shape[0] * len(self.channels)

    def pixels_of_patch(self, place: int) -> FloatArray:
        """(height, width) in blocks: how much of what output of_patches[place] says lies on each; they sum to 1."""
        kinds = iter(self.patches)
        while place >= (patches := next(kinds)).n_outputs:
            place -= patches.n_outputs
        _, height, width = self.output_shape
        blocks = patches.pixels[place // 2 % len(patches.pixels)].reshape(height, self.pool, width, self.pool)
        return np.asarray(blocks.sum(axis=(1, 3)), np.float64)

    @property
    def of_patches(self) -> range:
        """The outputs that patches make."""
        _, height, width = self.output_shape
        first = self.n_channels * height * width
        return range(first, first + sum(each.n_outputs for each in self.patches))

    def encode(self, x: ArrayLike | Matrix, *, gaps: bool = False) -> NDArray[np.float32]:
        """Probabilities (n, n_outputs), float32, C-contiguous, of raw features (n, n_features), in `output_shape`.

        Raises DataError as `check_features`, whatever `gaps`: what a missing pixel leaves of a channel is not defined.
        """
        return self.encode_up_to(x, self.n_outputs)

    def encode_up_to(self, x: ArrayLike | Matrix, n_outputs: int) -> NDArray[np.float32]:
        """As `encode`, without patches whose outputs are all behind the first `n_outputs`: these are 0."""
        raw = check_features(x, self.n_features)
        n_images, height, width = self.image_shape
        made = np.zeros((len(raw), self.n_outputs), np.float32)
        behind = self.of_patches
        encoded = made[:, : behind.start].reshape(len(raw), n_images, len(self.channels), *self.output_shape[1:])
        step = max(1, CHUNK_BYTES // (4 * self.n_features))
        for rows in (slice(start, start + step) for start in range(0, len(raw), step)):
            q = self.base.encode(raw[rows]).reshape(-1, *self.image_shape)
            padded = np.pad(q, ((0, 0), (0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS)), mode="edge")
            for k, name in enumerate(self.channels):
                response = _response(padded, CHANNELS[name], height, width)
                encoded[rows, :, k] = finished(response, CHANNELS[name], self.pool)
            first = behind.start
            for patches in self.patches:
                if first < n_outputs:
                    made[rows, first : first + patches.n_outputs] = patches.encode(q)
                first += patches.n_outputs
        return made

    def variable_names(self, feature_names: Sequence[str]) -> tuple[str, ...]:
        """The pixels' names; of several raw images, "image 0 grey[0,0]" and so on; "patch 0+ in (0,0)" by cell, where
        there are several kinds of patches "patch 0/0+ in (0,0)"; "nothing" for zeros."""
        names = list(pixel_names(image_channels(self.channels, self.n_channels), *self.output_shape[1:]))
        for number, patches in enumerate(self.patches):
            names += patches.names(f"patch {number}/" if len(self.patches) > 1 else "patch ")
        return (*names, *["nothing"] * (self.n_outputs - len(names)))

    def inputs_at(self, shares: FloatArray) -> FloatArray:
        return self.base.inputs_at(shares)

    def state(self) -> State:
        """That of `base`, beside `image_shape`, the places of `channels` in `CHANNELS`, a `pool` that is not 1, and
        those of `patches`, by number."""
        own = {"image_shape": self.image_shape, "channels": [list(CHANNELS).index(name) for name in self.channels]}
        own |= {"pool": [self.pool]} if self.pool > 1 else {}
        of_patches = {name: each for k, patches in enumerate(self.patches) for name, each in patches.state(k).items()}
        return {**self.base.state(), **{name: np.array(values, np.int32) for name, values in own.items()}, **of_patches}

    @classmethod
    def from_state(cls, state: State) -> Self:
        defaults = {"image_shape": 0.0, "channels": 0.0, "pool": np.ones(1, np.int32)}
        shape, places, pool = own = [np.asarray(state.get(name, default)) for name, default in defaults.items()]
        of_patches = {name: array for name, array in state.items() if name.startswith("patches")}
        n_patches = len(of_patches) // len(PATCHES_STATE)
        known = {f"patches{number}_{name}" for number in range(n_patches) for name in PATCHES_STATE}
        if known != {*of_patches}:
            raise FormatError(f"expected patches by number, found {', '.join(of_patches)}; the file is damaged")
        plain = {name: array for name, array in state.items() if name not in {*defaults, *of_patches}}
        bases = [base for base in PLAIN_ENCODERS.values() if {*plain} == {field.name for field in fields(base)}]
        right = all(array.dtype.kind == "i" and array.ndim == 1 and np.all(array >= 0) for array in own)
        if not bases or not right or np.any(places >= len(CHANNELS)) or len(pool) != 1:
            raise FormatError(
                f"expected image_shape, channels below {len(CHANNELS)}, at most one pool, and the arrays of one of "
                f"{', '.join(PLAIN_ENCODERS)}, found {dict(state)}; the file is damaged or newer than this lcml"
            )
        names = list(CHANNELS)
        chosen = tuple(names[place] for place in places)
        size = (int(shape[-2]), int(shape[-1])) if len(shape) > 1 else (0, 0)
        patches = tuple(Patches.from_state(of_patches, number, size) for number in range(n_patches))
        return cls(bases[0].from_state(plain), tuple(shape.tolist()), chosen, int(pool[0]), patches)


def finished(response: NDArray[Any], stencil: Stencil, pool: int) -> NDArray[Any]:
    """(..., height / pool, width / pool) means over blocks of a response (..., height, width), or their roots; without
    blocks in its place."""
    if pool > 1:
        *rest, height, width = response.shape
        response = response.reshape(*rest, height // pool, pool, width // pool, pool).mean(axis=(-3, -1))
    return np.sqrt(response, out=response) if stencil.root else response


def _response(padded: NDArray[np.float32], stencil: Stencil, height: int, width: int) -> NDArray[np.float32]:
    """The stencil at every pixel of images (n, n_images, height, width) that have a border of RADIUS around them."""
    response = np.full((*padded.shape[:2], height, width), stencil.offset, np.float32)
    for y, x, coefficient in stencil.terms():
        response += coefficient * padded[:, :, y : y + height, x : x + width]
    return np.clip(response, 0, 1, out=response)
