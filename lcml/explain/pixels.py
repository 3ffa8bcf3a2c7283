"""Where in an image conditions hold, and where evidence lies: windows and variables as pixels of the image."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.circuits.views import WindowView
from lcml.explain.conditions import MAX_CASES, Case
from lcml.explain.groups import Group
from lcml.explain.names import channel_names
from lcml.explain.records import Pixel, Place
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoding import Encoder
from lcml.model.model import LogisticCircuit

_COLOURS = 3  # images of so many channels are red, green and blue


def image_shape(model: LogisticCircuit) -> tuple[int, int, int] | None:
    """(channels, height, width) of a raw example, where the model or its provenance says that it is an image."""
    encoder = model.encoder
    if isinstance(encoder, ChannelEncoder):
        channels, height, width = encoder.image_shape
        return channels, height, width
    for part in model.parts:
        if isinstance(part.view, WindowView):
            return part.view.image_shape
    shape = model.facts("data").get("image_shape")
    sizes = [1, *shape][-3:] if isinstance(shape, list) and len(shape) in (2, 3) else []
    fits = all(isinstance(size, int) and size > 0 for size in sizes) and np.prod(sizes) == encoder.n_outputs
    return (sizes[0], sizes[1], sizes[2]) if sizes and fits else None


def pictures(model: LogisticCircuit, x: Any) -> NDArray[np.uint8]:
    """(n, height, width) grey levels, or (n, height, width, 3) colours, of raw images (n, d); ValueError for others."""
    shape = image_shape(model)
    if shape is None:
        raise ValueError("the model is of no images")
    encode = model.encoder.base.encode if isinstance(model.encoder, ChannelEncoder) else model.encode
    levels = encode(x).reshape(-1, *shape)
    levels = np.moveaxis(levels, 1, -1) if shape[0] == _COLOURS else levels.mean(axis=1)
    return np.asarray(np.rint(255 * levels), np.uint8)


def place_of(model: LogisticCircuit, group: Group, q: FloatArray) -> Place | None:
    """Where a condition is in an image, of which q (n_inputs,) is encoded; of many cases the first are looked at."""
    shape = _read_shape(model)
    if shape is None:
        return None
    height, width, pool = shape
    view, n = model.parts[group.part].view, model.parts[group.part].circuit.n_variables
    cases = list(islice(group.of_circuit.spelt(group.cases), MAX_CASES))
    first, stop = view.cell_start[group.cell : group.cell + 2].tolist()
    read = np.append(q, 0.0)[view.index[first:stop]]
    literals = np.concatenate([read, 1 - read], axis=1)
    flows = np.stack([literals[:, sorted(case)].prod(axis=1) for case in cases], axis=1)
    total = flows.sum(axis=1) * view.position_weight[first:stop]
    position = int(total.argmax()) if total.max() > 0 else (stop - first) // 2
    case = cases[int(flows[position].argmax())]
    inputs = view.index[first + position]
    names = channel_names(model.encoder, view.n_inputs // (height * width))
    pixels = _pixels(case, inputs, n, (height, width), pool, names)
    origin, size, slides = (0, 0), (height, width), isinstance(view, WindowView)
    if isinstance(view, WindowView):
        origin, size = view.position_origin[first + position].tolist(), view.window
    row, column, rows, columns = (pool * number for number in (*origin, *size))
    return Place(group.part, group.cell, row, column, rows, columns, slides, pixels)


def _read_shape(model: LogisticCircuit) -> tuple[int, int, int] | None:
    """Height and width of what windows read of a raw image, and rows and columns of pixels that one of theirs is."""
    raw, encoder = image_shape(model), model.encoder
    if raw is None:
        return None
    pool = encoder.pool if isinstance(encoder, ChannelEncoder) else 1
    return raw[1] // pool, raw[2] // pool, pool


def evidence(model: LogisticCircuit, groups: Sequence[Group], added: FloatArray) -> FloatArray:
    """(k, height, width) of what all groups add, (k, n_groups): each group's share lies on the pixels that its
    condition mentions in the windows of its cell, as these count in its mean, on all pixels evenly where it mentions
    none. All that is added is there."""
    shape = _read_shape(model)
    assert shape is not None
    height, width, pool = shape
    n_pixels = height * width
    found = np.zeros((len(added), n_pixels))
    for number, group in enumerate(groups):
        view = model.parts[group.part].view
        variables = sorted({literal % view.n_variables for literal in group.of_circuit.mentioned(group.cases)})
        first, stop = view.cell_start[group.cell : group.cell + 2].tolist()
        inputs = view.index[first:stop, variables]
        weights = np.broadcast_to(view.position_weight[first:stop, None], inputs.shape)
        inside = inputs < view.n_inputs
        counts = _mentioned(model.encoder, inputs[inside], weights[inside], n_pixels)
        where = np.flatnonzero(counts) if counts.any() else np.arange(n_pixels)
        share = counts[where] / counts.sum() if counts.any() else 1 / n_pixels
        found[:, where] += added[:, number, None] * share
    return np.kron(found.reshape(-1, height, width), np.full((pool, pool), 1 / pool**2))


def _mentioned(
    encoder: Encoder, inputs: NDArray[np.integer], weights: NDArray[Any], n_pixels: int
) -> NDArray[np.float64]:
    """(n_pixels,) how much of these inputs, with their weights, lies on every pixel: of a patch on all of its cell."""
    patches = encoder.of_patches if isinstance(encoder, ChannelEncoder) else range(0)
    is_patch = (inputs >= patches.start) & (inputs < patches.stop)
    counts = np.bincount(inputs[~is_patch] % n_pixels, weights[~is_patch], n_pixels).astype(np.float64)
    for place, weight in zip((inputs[is_patch] - patches.start).tolist(), weights[is_patch], strict=True):
        assert isinstance(encoder, ChannelEncoder)
        counts += weight * encoder.pixels_of_patch(place).ravel()
    return counts


def _pixels(
    case: Case, inputs: NDArray[Any], n: int, size: tuple[int, int], pool: int, channels: Sequence[str]
) -> tuple[Pixel, ...]:
    """The pixels, or blocks of `pool` x `pool`, of a case's literals, those in the padding left out."""
    height, width = size
    found = []
    for literal in sorted(case, key=lambda literal: literal % n):
        channel, pixel = divmod(int(inputs[literal % n]), height * width)
        if channel < len(channels):
            row, column = divmod(pixel, width)
            found.append(Pixel(channels[channel], pool * row, pool * column, literal < n, pool))
    return tuple(found)
