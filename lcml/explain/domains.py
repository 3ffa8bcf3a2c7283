"""What every input of an example may be instead: the values at which a model's logits have their extremes.

Between two neighbours of the values listed here a logit is linear in the input, the others held: over all values of
several inputs it is least, and largest, at some combination of those listed.

    number, date, rank    every knot, and both sides of every step
    category              every category, and what the rare ones share
    gap                   where training had any
    scaled                the lowest and the highest value; on either side of a threshold
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.inputs.channels import CHANNELS, RADIUS, ChannelEncoder, finished
from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoding import Encoder
from lcml.inputs.rows import check_features
from lcml.inputs.table import Table


@dataclass(frozen=True, eq=False)
class Domain:
    """An example and what its inputs may be. own (d,): its codes, which `raw` turns into examples; values: by input,
    its own code and then those listed in the module, without those of `own`."""

    encoder: Encoder
    own: FloatArray
    values: tuple[FloatArray, ...]

    @classmethod
    def of(cls, encoder: Encoder, example: Any, *, known: bool = False) -> "Domain":
        """Of an example (d,), or a `Table` of one row. known: without gaps and categories that have no name."""
        own = codes_of(encoder, example if isinstance(example, Table) else [example])[0]
        if isinstance(encoder, ColumnsEncoder):
            listed = [_column_values(column, known) for column in encoder.columns]
        else:
            ends = np.array([[0.0], [1.0]]) + np.zeros((2, encoder.n_features))
            listed = [np.unique(column) for column in np.asarray(encoder.inputs_at(ends)).T]
        return cls(encoder, own, tuple(map(_with_own, own.tolist(), listed)))

    @property
    def n_inputs(self) -> int:
        return len(self.own)

    @property
    def has_blocks(self) -> bool:
        """Whether every variable comes from one input."""
        return not isinstance(self.encoder, ChannelEncoder)

    def raw(self, codes: FloatArray) -> Any:
        """Raw examples of codes (n, d)."""
        return self.encoder.examples(codes) if isinstance(self.encoder, ColumnsEncoder) else codes

    @cached_property
    def encoded(self) -> list[FloatArray]:
        """By input, the probabilities (n_values, n_variables of the input) of its values, before channels are made."""
        encoder = self.encoder.base if isinstance(self.encoder, ChannelEncoder) else self.encoder
        longest = max(map(len, self.values))
        codes = np.tile(self.own, (longest, 1))
        for j, values in enumerate(self.values):
            codes[: len(values), j] = values
        q = encoder.encode(self.raw(codes)).astype(np.float64)
        starts = encoder.blocks.tolist()
        return [
            q[: len(values), first:stop]
            for values, first, stop in zip(self.values, starts[:-1], starts[1:], strict=True)
        ]

    def ranges(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, n_outputs) between which all variables lie, for those of `encoded`: of a channel the sums of its stencil
        with whichever end is less, or more."""
        if not isinstance(self.encoder, ChannelEncoder):
            return low, high
        shape, room = (-1, *self.encoder.image_shape), ((0, 0), (0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS))
        low, high = (np.pad(values.reshape(shape), room, mode="edge") for values in (low, high))
        least, most = (
            np.stack([_stencil(name, *ends, self.encoder.pool) for name in self.encoder.channels], axis=2)
            for ends in ((low, high), (high, low))
        )
        least, most = (values.reshape(len(low), -1) for values in (least, most))
        behind = np.arange(self.encoder.n_outputs - least.shape[1]) < len(self.encoder.of_patches)
        planes = np.tile(behind.astype(np.float64), (len(low), 1))  # patches may say anything
        return np.concatenate([least, 0 * planes], axis=1), np.concatenate([most, planes], axis=1)


def codes_of(encoder: Encoder, x: Any) -> FloatArray:
    """(n, d) codes of raw examples: those of a table's columns, else their numbers."""
    if isinstance(encoder, ColumnsEncoder):
        return encoder.codes(x)
    return np.asarray(check_features(x, encoder.n_features)[:], np.float64)


def _column_values(column: Column, known: bool) -> FloatArray:
    gap = [np.nan] if column.gaps and not known else []
    if column.kind == "category":
        return np.concatenate([np.arange(len(column.categories) + (column.shared and not known)), gap])
    below = np.nextafter(column.steps, -np.inf)
    if column.kind == "ordinal":
        return np.concatenate([column.knots, gap])
    return np.concatenate([np.unique(np.concatenate([column.knots, column.steps, below])), gap])


def _with_own(own: float, values: FloatArray) -> FloatArray:
    same = np.isnan(values) if np.isnan(own) else values == own
    return np.concatenate([[own], values[~same]])


def _stencil(name: str, positive: FloatArray, negative: FloatArray, pool: int) -> FloatArray:
    """positive, negative: what coefficients of these signs multiply."""
    stencil = CHANNELS[name]
    height, width = (size - 2 * RADIUS for size in positive.shape[2:])
    response: NDArray[np.float64] = np.full((*positive.shape[:2], height, width), stencil.offset)
    for y, x, coefficient in stencil.terms():
        source = positive if coefficient > 0 else negative
        response += coefficient * source[:, :, y : y + height, x : x + width]
    return finished(np.clip(response, 0, 1), stencil, pool)
