"""The weights that learning fits, and how they stand for the weights of the features."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.circuits.basis import Lift
from lcml.circuits.parts import GrownPart, Part


@dataclass(frozen=True, eq=False)
class Parameters:
    """weights (n_sets, n_weights), in the order of a `Layout`; bias (n_sets,)."""

    weights: FloatArray
    bias: FloatArray

    def flat(self) -> FloatArray:
        return np.concatenate([self.weights.ravel(), self.bias])

    def from_flat(self, flat: FloatArray) -> "Parameters":
        """Parameters of this shape from a flat vector."""
        return Parameters(flat[: self.weights.size].reshape(self.weights.shape), flat[self.weights.size :])


class Layout:
    """Weights part by part and, within a part, cell by cell: of the part's features, or, where it has a lift, of all
    its elements behind, with `literals`, all its literals."""

    def __init__(self, parts: Sequence[Part], lifts: Sequence[Lift | None] | None = None) -> None:
        self.parts = tuple(parts)
        self._lifts = tuple(lifts) if lifts is not None else (None,) * len(self.parts)
        self.shapes = [
            (part.view.n_cells, part.n_features // part.view.n_cells if lift is None else lift.n_weights)
            for part, lift in zip(self.parts, self._lifts, strict=True)
        ]

    @classmethod
    def lifted(cls, parts: Sequence[Part], literals: bool) -> "Layout":
        """The layout that learning uses: a lift for every part whose features are linear in its flows."""
        lifts = [
            None if part.view.root or not part.circuit.n_or_gates else Lift(part.circuit, part.dropped, literals)
            for part in parts
        ]
        return cls(parts, lifts)

    def zeros(self, n_sets: int) -> Parameters:
        """All weights and biases 0."""
        return Parameters(np.zeros((n_sets, sum(cells * width for cells, width in self.shapes))), np.zeros(n_sets))

    def lower(self, parameters: Parameters) -> Parameters:
        """Weights (n_sets, n_features) and biases on the features, of the same function."""
        weights, bias = [], parameters.bias
        for lift, of_part in zip(self._lifts, self._split(parameters.weights), strict=True):
            if lift is not None:
                of_part, gain = lift.lower(of_part)
                bias = bias + gain.sum(axis=1)
            weights.append(of_part)
        return Parameters(_joined(weights), bias)

    def raise_(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Sums (n_sets, n_weights) for the weights from sums (n_sets, n_features) over the features and total
        (n_sets,) over what is always 1: the adjoint of `lower`, which turns gradients into gradients."""
        parts, first = [], 0
        for part, lift in zip(self.parts, self._lifts, strict=True):
            of_part = sums[:, first : first + part.n_features].reshape(len(sums), part.view.n_cells, -1)
            first += part.n_features
            if lift is not None:
                of_part = lift.raise_(of_part, np.repeat(total[:, None], part.view.n_cells, axis=1))
            parts.append(of_part)
        return _joined(parts)

    def inherit(self, grown: Sequence[GrownPart], parameters: Parameters) -> Parameters:
        """Weights on the grown parts: of the same function, or near to it where features are square roots."""
        weights = []
        for part, lift, of_part, after in zip(
            self.parts, self._lifts, self._split(parameters.weights), grown, strict=True
        ):
            if lift is None:
                flows = np.zeros((*of_part.shape[:2], len(part.weighted)))
                flows[..., part.weighted] = of_part
                weights.append(flows[..., after.origin][..., after.part.weighted])
            else:
                first = len(part.weighted) - lift.n_weights
                weights.append(of_part[..., after.origin[first:] - first])
        return Parameters(_joined(weights), parameters.bias)

    def _split(self, weights: FloatArray) -> list[NDArray[np.float64]]:
        """Per part (n_sets, n_cells, width)."""
        bounds = np.cumsum([cells * width for cells, width in self.shapes])[:-1]
        columns = np.split(weights, bounds, axis=1)
        return [of_part.reshape(len(weights), *shape) for of_part, shape in zip(columns, self.shapes, strict=True)]


def _joined(weights: list[FloatArray]) -> FloatArray:
    return np.concatenate([of_part.reshape(len(of_part), -1) for of_part in weights], axis=1)
