"""Patches: what a cell of an image shows of small patches drawn from the training images.

With p the square roots of the grey levels in the window at a place (of all raw images), mean(p) their mean and s^2
their variance + 1/100, window and filter k correlate by

    r_k = w_k . (p - mean(p)) / s - b_k,    x_k+ = min(1, max(0, r_k - 1/16)),    x_k- = min(1, max(0, -r_k - 1/16))

and what is encoded is, per filter, cell and sign, the root of the mean of x over the places of the cell. The filters
are windows of training images, drawn at random, made of length 1 after all windows were whitened: w_k holds that, and
units in which the correlations of all have the deviation 1/4. No label is looked at.

Source: Coates, Ng & Lee, An analysis of single-layer networks in unsupervised feature learning, 2011 (its whitening and
its drawn patches); the roots are those of `lcml.inputs.channels`.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import frozen, weighted_runs
from lcml.errors import FormatError, SettingsError

VARIANCE = 0.01
"""What is added to the variance of a window: an even one has no pattern to be made strong."""

THRESHOLD = 1 / 16
"""Correlations below it, a quarter of their deviation, say nothing."""

_SCALE = 4.0  # deviations from 0 at which a correlation is 1
_RIDGE = 0.1  # added to the variance of every direction before whitening: the faint ones are noise
IMAGES, _WINDOWS = 3000, 200_000  # at most, which filters are learned from
_EVEN = 1e-4  # windows of less variance are not drawn
_CHUNK_BYTES = 1 << 22  # of windows and correlations that are worked on at a time: they stay in a cache

Pair = tuple[int, int]


@dataclass(frozen=True)
class PatchSpec:
    """count filters of size (rows, columns), at every stride-th place of the image, pooled over the cells of a grid, of
    which each reaches `overlap` places into its neighbours as those of `lcml.circuits.views.WindowView` do.

    Raises SettingsError for a value out of range.
    """

    count: int
    size: Pair = (7, 7)
    stride: Pair = (1, 1)
    grid: Pair = (4, 4)
    overlap: Pair = (2, 2)

    def __post_init__(self) -> None:
        if self.count < 1:
            raise SettingsError(f"patches: count: expected 1 or more, found {self.count}")
        for name, least in {"size": 1, "stride": 1, "grid": 1, "overlap": 0}.items():
            if min(getattr(self, name)) < least:
                raise SettingsError(f"patches: {name}: expected {least} or more, found {getattr(self, name)}")

    def places(self, height: int, width: int) -> Pair:
        """Rows and columns of places on an image of that size. Raises SettingsError where it does not fit."""
        rows, columns = (
            (size - own) // stride + 1
            for size, own, stride in zip((height, width), self.size, self.stride, strict=True)
        )
        for axis, count in (("rows", rows), ("columns", columns)):
            cells, overlap = (getattr(self, name)[axis == "columns"] for name in ("grid", "overlap"))
            if count < cells or (cells > 1 and overlap > count // cells):
                raise SettingsError(
                    f"patches: {max(0, count)} {axis} of places do not make {cells} {axis} of cells with an overlap of "
                    f"{overlap}; use smaller patches or a smaller stride, grid or overlap"
                )
        return rows, columns


@dataclass(frozen=True, eq=False)
class Patches:
    """filters (count, images, rows, columns), whose sums are 0, and offsets (count,), float32, as the module has them;
    image_size: rows and columns of the images. Raises FormatError where they do not fit."""

    spec: PatchSpec
    filters: NDArray[np.float32]
    offsets: NDArray[np.float32]
    image_size: Pair

    def __post_init__(self) -> None:
        for name in ("filters", "offsets"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.float32))
        expected = (self.spec.count, *self.spec.size)
        fit = self.filters.ndim == 4 and (*self.filters.shape[:1], *self.filters.shape[2:]) == expected
        if not fit or self.offsets.shape != expected[:1] or not np.all(np.isfinite(self.filters)):
            raise FormatError(f"patches: expected {expected} filters, found {self.filters.shape}")
        self.spec.places(*self.image_size)

    @property
    def n_outputs(self) -> int:
        return 2 * self.spec.count * self.spec.grid[0] * self.spec.grid[1]

    @cached_property
    def shares(self) -> NDArray[np.float32]:
        """(n_cells, n_places) the part of each place in the mean of a cell."""
        places = self.spec.places(*self.image_size)
        rows, columns = map(_shares, places, self.spec.grid, self.spec.overlap)
        return frozen(np.kron(rows, columns), np.float32)

    @cached_property
    def pixels(self) -> NDArray[np.float64]:
        """(n_cells, height, width) how much of a cell's mean lies on every pixel; each cell's sum to 1."""
        along = []
        for axis, n_places in enumerate(self.spec.places(*self.image_size)):
            shares = _shares(n_places, self.spec.grid[axis], self.spec.overlap[axis])
            read = np.arange(self.image_size[axis]) - self.spec.stride[axis] * np.arange(n_places)[:, None]
            along.append(shares @ ((read >= 0) & (read < self.spec.size[axis])) / self.spec.size[axis])
        return np.asarray(np.kron(*along).reshape(-1, *self.image_size), np.float64)

    def encode(self, q: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, n_outputs) of grey levels (n, images, height, width): by filter, cell and sign."""
        found = np.empty((len(q), self.spec.count, len(self.shares), 2), np.float32)
        weights, threshold = self.filters.reshape(len(self.filters), -1).T, np.float32(THRESHOLD)
        step = max(1, _CHUNK_BYTES // (4 * self.shares.shape[1] * sum(weights.shape)))
        for rows in (slice(first, first + step) for first in range(0, len(q), step)):
            windows = _windows(np.sqrt(q[rows]), self.spec)
            p = np.ascontiguousarray(windows).reshape(len(windows), self.shares.shape[1], -1)
            r = _normalised(p) @ weights
            r -= self.offsets
            for sign in (0, 1):
                x = -threshold - r if sign else r - threshold
                np.clip(x, 0, 1, out=x)
                found[rows, :, :, sign] = np.matmul(self.shares, x).swapaxes(1, 2)
        return np.sqrt(found, out=found).reshape(len(q), -1)

    def names(self, prefix: str) -> list[str]:
        """What the outputs are called, behind a prefix: "12+ in (0,1)", the filter, its sign and the cell."""
        cells = [f"({row},{column})" for row in range(self.spec.grid[0]) for column in range(self.spec.grid[1])]
        return [f"{prefix}{k}{sign} in {cell}" for k in range(self.spec.count) for cell in cells for sign in "+-"]

    def state(self, number: int) -> dict[str, NDArray[Any]]:
        """What a model file stores of the patches of that number."""
        layout = [*self.spec.stride, *self.spec.grid, *self.spec.overlap]
        found = {"filters": self.filters, "offsets": self.offsets, "layout": np.array(layout, np.int32)}
        return {f"patches{number}_{name}": values for name, values in found.items()}

    @classmethod
    def from_state(cls, state: dict[str, Any], number: int, image_size: Pair) -> "Patches":
        """Those whose `state` this is; FormatError or SettingsError where it is none."""
        filters, offsets, layout = (np.asarray(state[f"patches{number}_{name}"]) for name in STATE)
        if filters.ndim != 4 or layout.shape != (6,) or layout.dtype.kind != "i":
            raise FormatError(f"patches: expected filters of 4 axes and a layout of 6 numbers, found {filters.shape}")
        stride, grid, overlap = ((int(a), int(b)) for a, b in layout.reshape(3, 2))
        size = (filters.shape[2], filters.shape[3])
        return cls(PatchSpec(len(filters), size, stride, grid, overlap), filters, offsets, image_size)


STATE = "filters", "offsets", "layout"


def fit_patches(spec: PatchSpec, q: NDArray[np.float32], seed: int) -> Patches:
    """The patches of grey levels (n, images, height, width), of `IMAGES` or less, drawn by `seed`. Raises SettingsError
    where images are too small, or nearly all are even."""
    spec.places(*q.shape[2:])
    generator, windows = np.random.default_rng(seed), _windows(np.sqrt(q), spec)
    places = windows.shape[:3]
    number = np.unique(generator.integers(0, math.prod(places), 2 * _WINDOWS))
    p = windows[np.unravel_index(number, places)].reshape(len(number), -1)
    p = p[p.var(axis=1) > _EVEN]
    if len(p) < spec.count:
        raise SettingsError(
            f"patches: {len(p)} windows of the training images show anything, {spec.count} filters were asked for; "
            "ask for fewer"
        )
    p = _normalised(p[np.sort(generator.permutation(len(p))[:_WINDOWS])]).astype(np.float64)
    mean = p.mean(axis=0)
    size, directions = np.linalg.eigh(np.cov((p - mean).T))
    whitening = (directions / np.sqrt(size + _RIDGE)) @ directions.T
    drawn = (p[generator.permutation(len(p))[: spec.count]] - mean) @ whitening
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    weights = drawn @ whitening
    offsets, deviation = weights @ mean, np.std((p - mean) @ weights.T)
    weights -= weights.mean(axis=1, keepdims=True)
    shape = (spec.count, q.shape[1], *spec.size)
    scale = 1 / (_SCALE * max(float(deviation), 1e-12))
    return Patches(spec, (scale * weights).reshape(shape), scale * offsets, (q.shape[2], q.shape[3]))


def _windows(p: NDArray[np.float32], spec: PatchSpec) -> NDArray[np.float32]:
    """(n, rows and columns of places, images, rows, columns), a view of images (n, images, height, width)."""
    windows = np.lib.stride_tricks.sliding_window_view(p, spec.size, axis=(2, 3))
    return windows[:, :, :: spec.stride[0], :: spec.stride[1]].transpose(0, 2, 3, 1, 4, 5)


def _normalised(p: NDArray[np.float32]) -> NDArray[np.float32]:
    """(p - mean(p)) / s along the last axis."""
    p = p - p.mean(axis=-1, keepdims=True)
    return np.asarray(p / np.sqrt(np.mean(p * p, axis=-1, keepdims=True) + np.float32(VARIANCE)))


def _shares(n_places: int, n_cells: int, overlap: int) -> NDArray[np.float64]:
    """(n_cells, n_places) along an axis."""
    shares = np.zeros((n_cells, n_places))
    for cell, counts in enumerate(weighted_runs(n_places, n_cells, overlap if n_cells > 1 else 0)):
        shares[cell, [*counts]] = [*counts.values()]
    return np.asarray(shares / shares.sum(axis=1, keepdims=True), np.float64)
