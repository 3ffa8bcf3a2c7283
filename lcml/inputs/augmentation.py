"""Augmentation: distorted copies of training images, computed when they are asked for.

Pixel p (row, column) of a copy is the image at  centre + M (p - centre) - shift + e(p),  by bilinear interpolation:

    shift    whole pixels: a copy of an image takes the next of the shifts allowed, from a start that differs by image
    M        rotation . shear . scale of rows and of columns, each uniform in its range; odd copies mirrored by `flip`
    e        elastic: a uniform cubic B-spline over random control points, at most `elastic` pixels along either axis

Beyond the border is the smallest value of all features (0 in the image sets). An image of height 1, a sequence, moves
along its columns only. Only what prepares training may import this module: examples that measure or predict never pass
through it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.errors import SettingsError
from lcml.inputs.channels import CHUNK_BYTES
from lcml.inputs.rows import Matrix, RowSet, chunks


@dataclass(frozen=True)
class Augmentation:
    """How training images are distorted. Raises SettingsError for a value out of range.

    copies: distorted copies of every image, beside the image itself
    shift: pixels that a copy moves at most along each axis; cross: only along one of them, by exactly that many
    rotation, shear: degrees at most, either way; scale: share by which rows and columns are stretched at most
    elastic: pixels that a point is moved at most along each axis; elastic_spacing: pixels between the control points
    flip: mirror left and right in the first, third, ... copy
    """

    copies: int = 0
    shift: int = 0
    cross: bool = False
    rotation: float = 0.0
    scale: float = 0.0
    shear: float = 0.0
    elastic: float = 0.0
    elastic_spacing: float = 7.0
    flip: bool = False

    def __post_init__(self) -> None:
        many = 10**6
        limits = {"copies": (0, many), "shift": (0, many), "rotation": (0, 180), "scale": (0, 0.9), "shear": (0, 60)}
        limits |= {"elastic": (0, many), "elastic_spacing": (1, many)}
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            whole = name not in ("copies", "shift") or isinstance(value, int)
            if isinstance(value, bool) or not whole or not least <= value <= most:
                kind = "a number" if whole else "an integer"
                raise SettingsError(f"augmentation: {name}: expected {kind} of {least} to {most}, found {value!r}")


class AugmentedImages:
    """Rows (copies + 1) n: the n images as they are, then their first copies, their second copies, and so on.

    Indexing the rows, by anything that indexes an array, computes them; np.asarray computes all. A row depends on
    nothing but the images, the settings, the seed and its number. Labels: np.tile(labels, copies + 1).
    """

    ndim = 2

    def __init__(self, features: Matrix, image_shape: tuple[int, int, int], settings: Augmentation, seed: int):
        self._features, self._image_shape, self._settings, self._seed = features, image_shape, settings, seed
        extremes = [(part.min(), part.max()) for part in (features[rows] for rows in chunks(features))] or [(0, 0)]
        self._range = float(min(low for low, _ in extremes)), float(max(high for _, high in extremes))
        height, width = image_shape[1:]
        self._shifts = _shifts(settings, height, width)
        self._splines = tuple(_spline(size, settings.elastic_spacing) for size in (height, width))
        self.shape = (len(features) * (settings.copies + 1), features.shape[1])
        self.dtype = features.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        rows = np.arange(*key.indices(len(self))) if isinstance(key, slice) else np.arange(len(self))[key]
        result = self._rows(np.atleast_1d(rows))
        return result if rows.ndim else result[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)

    def _rows(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        result: NDArray[Any] = self._features[rows % max(1, len(self._features))]
        copies = np.flatnonzero(rows >= len(self._features))
        step = max(1, CHUNK_BYTES // (8 * self.shape[1]))
        for chunk in (copies[start : start + step] for start in range(0, len(copies), step)):
            images = result[chunk].reshape(-1, *self._image_shape)
            sampled = _sample(images, *self._places(rows[chunk]), self._range[0])
            if self.dtype.kind in "bui":
                np.rint(sampled, out=sampled)
            result[chunk] = np.clip(sampled, *self._range).reshape(len(chunk), -1)
        return result

    def _places(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Row and column, each (n, height, width), that every pixel of these rows reads in its image."""
        settings, (height, width) = self._settings, self._image_shape[1:]
        copy, image = np.divmod(rows, len(self._features))
        controls = [spline.shape[1] for spline in self._splines] if settings.elastic else [0, 0]
        draws = 2 * _uniform(self._seed, rows, 4 + 2 * controls[0] * controls[1]) - 1
        angle, shear = np.radians(settings.rotation) * draws[:, 0], np.tan(np.radians(settings.shear) * draws[:, 1])
        scale = 1 + settings.scale * draws[:, 2:4]
        cos, sin = np.cos(angle), np.sin(angle)
        matrix = np.empty((len(rows), 2, 2))  # rotation [[c, s], [-s, c]] . shear [[1, 0], [t, 1]] . scale
        matrix[:, 0] = np.stack([cos + sin * shear, sin], axis=1) * scale
        matrix[:, 1] = np.stack([cos * shear - sin, cos], axis=1) * scale
        if settings.flip:
            matrix[copy % 2 == 1, :, 1] *= -1
        start = np.floor(_uniform(self._seed, image, 1)[:, 0] * len(self._shifts)).astype(np.intp)
        shift = self._shifts[(start + copy) % len(self._shifts)]
        centre = (height - 1) / 2, (width - 1) / 2
        y, x = (np.arange(size) - middle for size, middle in zip((height, width), centre, strict=True))
        places = [
            (matrix[:, axis, :1] * y + (centre[axis] - shift[:, axis, None]))[:, :, None].astype(np.float32)
            + (matrix[:, axis, 1:] * x)[:, None, :].astype(np.float32)
            for axis in (0, 1)
        ]
        if settings.elastic:
            points = settings.elastic * draws[:, 4:].reshape(len(rows), 2, *controls)
            moved = (self._splines[0] @ points @ self._splines[1].T).astype(np.float32)
            places = [places[axis] + moved[:, axis] for axis in (0, 1)]
        return places[0] * np.float32(height > 1), places[1] * np.float32(width > 1)


def augmented(features: Matrix, image_shape: Sequence[int], augmentation: Augmentation, seed: int) -> AugmentedImages:
    """Raw training images (n, d), an array or rows in a file, and their distorted copies, (copies + 1) n rows of the
    same type and range.

    image_shape: (height, width) or (channels, height, width), whose channels move together. Raises SettingsError where
    it does not fit the features or a shift is not smaller than the image.
    """
    raw = features.numbers() if isinstance(features, RowSet) else np.asarray(features)
    shape = (1, *image_shape) if len(image_shape) == 2 else tuple(image_shape)
    if len(raw.shape) != 2 or len(shape) != 3 or min(shape) < 1 or math.prod(shape) != raw.shape[1]:
        raise SettingsError(
            f"augmentation: images of shape {tuple(image_shape)} do not fit features of shape {raw.shape}; "
            "augmentation is for images: (height, width) or (channels, height, width)"
        )
    smallest, shift = min((size for size in shape[1:] if size > 1), default=1), augmentation.shift
    if shift >= smallest:
        raise SettingsError(
            f"augmentation: shift: expected less than the {smallest} pixels of the image, found {shift}"
        )
    return AugmentedImages(raw, (shape[0], shape[1], shape[2]), augmentation, seed)


def _sample(
    images: NDArray[Any], y: NDArray[np.float32], x: NDArray[np.float32], background: float
) -> NDArray[np.floating[Any]]:
    """Images (n, channels, height, width) at places y, x (n, height, width), between pixels bilinearly."""
    n, channels, height, width = images.shape
    exact = np.result_type(images.dtype, np.float32) == np.float32
    border = ((0, 0), (0, 0), (1, 1), (1, 1))
    padded = np.pad(images, border, constant_values=background).astype(np.float32 if exact else np.float64)
    y, x = np.clip(y, -1, height), np.clip(x, -1, width)
    top, left = np.minimum(np.floor(y), height - 1), np.minimum(np.floor(x), width - 1)
    down, right = (y - top)[:, None], (x - left)[:, None]
    pixel = (top * np.float32(width + 2) + (left + np.float32(width + 3))).astype(np.intp)[:, None]
    plane = np.arange(n * channels).reshape(n, channels, 1, 1) * ((height + 2) * (width + 2))
    corner, flat = pixel + plane, padded.ravel()
    lines = (0, width + 2)
    upper, lower = (_between(flat.take(corner + step), flat.take(corner + (step + 1)), right) for step in lines)
    return _between(upper, lower, down)


def _between(first: NDArray[Any], second: NDArray[Any], share: NDArray[Any]) -> NDArray[Any]:
    second -= first
    second *= share
    second += first
    return second


def _shifts(settings: Augmentation, height: int, width: int) -> NDArray[np.intp]:
    """(n_shifts, 2) rows and columns to move by, in the order in which the copies of an image take them."""
    far = settings.shift
    down, right = (range(-far, far + 1) if size > 1 else range(1) for size in (height, width))
    moves = [(y, x) for y in down for x in right if (y, x) != (0, 0)]
    if settings.cross:
        moves = [(y, x) for y, x in moves if abs(y) + abs(x) == far and 0 in (y, x)]
    n = len(moves)
    if n == 0:
        return np.zeros((1, 2), np.intp)
    # A stride near the golden section: the first few copies lie apart, the first n are all different.
    stride = next(k for k in range(max(1, round(0.618 * n)), 2 * n) if math.gcd(k, n) == 1)
    return np.array([moves[stride * i % n] for i in range(n)], np.intp)


def _spline(size: int, spacing: float) -> NDArray[np.float64]:
    """(size, n_points) weights at 0 ... size - 1 of control points `spacing` apart from -spacing on; rows sum to 1."""
    points = np.arange(-1, (size - 1) // spacing + 3)
    distance = np.abs(np.arange(size)[:, None] / spacing - points)
    near, far = 2 / 3 - distance**2 + distance**3 / 2, np.maximum(0, 2 - distance) ** 3 / 6
    return np.where(distance < 1, near, far)


def _uniform(seed: int, rows: NDArray[np.intp], count: int) -> NDArray[np.float64]:
    """(n_rows, count) numbers in [0, 1), each of them a hash of seed, row and place."""
    start = _mixed(np.array([seed % 2**64], np.uint64))
    per_row = _mixed(start + rows.astype(np.uint64))
    places = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits = _mixed(per_row[:, None] + places) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64. Source: Steele, Lea & Flood, OOPSLA 2014."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
