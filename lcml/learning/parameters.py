"""The weights that learning fits, and how they stand for the weights of the features."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.circuits.basis import BasisMap
from lcml.circuits.parts import GrownPart, Part


@dataclass(frozen=True, eq=False)
class Parameters:
    """weights (n_sets, n_weights), in the order of a `Parametrisation`; bias (n_sets,)."""

    weights: FloatArray
    bias: FloatArray

    def mean(self, other: "Parameters", scale: float) -> "Parameters":
        """Whose logits are the mean of these and of `scale` times the other's."""
        return Parameters((self.weights + scale * other.weights) / 2, (self.bias + scale * other.bias) / 2)

    def flat(self) -> FloatArray:
        return np.concatenate([self.weights.ravel(), self.bias])

    def from_flat(self, flat: FloatArray) -> "Parameters":
        return Parameters(flat[: self.weights.size].reshape(self.weights.shape), flat[self.weights.size :])


class Parametrisation:
    """Which weights stand for the function, part by part and, within a part, cell by cell: of the part's features, or,
    unless `literals` is None, in every part whose features are linear in its flows, of all its elements and, in front
    of them, with `literals`, all its literals.

    The latter, overcomplete, is what learning fits, and penalises: more weights than there are independent features.
    That generalises better than weights of the basis, of the same functions.
    """

    def __init__(self, parts: Sequence[Part], literals: bool | None = None) -> None:
        self.parts, self._literals = tuple(parts), literals

    @cached_property
    def _maps(self) -> list[BasisMap | None]:
        return [
            BasisMap(part.circuit, part.dropped, self._literals)
            if self._literals is not None and part.circuit.n_or_gates and not part.view.root
            else None
            for part in self.parts
        ]

    @cached_property
    def _shapes(self) -> list[tuple[int, int]]:
        return [
            (part.view.n_cells, part.n_features // part.view.n_cells if basis is None else basis.n_weights)
            for part, basis in zip(self.parts, self._maps, strict=True)
        ]

    def zeros(self, n_sets: int) -> Parameters:
        return Parameters(np.zeros((n_sets, sum(cells * width for cells, width in self._shapes))), np.zeros(n_sets))

    def to_features(self, parameters: Parameters) -> Parameters:
        """Weights (n_sets, n_features) and biases on the features, of the same function."""
        weights, bias = [], parameters.bias
        for basis, of_part in zip(self._maps, self._split(parameters.weights), strict=True):
            if basis is not None:
                of_part, gain = basis.to_basis(of_part)
                bias = bias + gain.sum(axis=1)
            weights.append(of_part)
        return Parameters(_joined(weights), bias)

    def adjoint(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Sums (n_sets, n_weights) for the weights from sums (n_sets, n_features) over the features and total
        (n_sets,) over what is always 1: the adjoint of `to_features`, which turns gradients into gradients."""
        parts, first = [], 0
        for part, basis in zip(self.parts, self._maps, strict=True):
            of_part = sums[:, first : first + part.n_features].reshape(len(sums), part.view.n_cells, -1)
            first += part.n_features
            if basis is not None:
                of_part = basis.adjoint(of_part, np.repeat(total[:, None], part.view.n_cells, axis=1))
            parts.append(of_part)
        return _joined(parts)

    def inherit(self, grown: Sequence[GrownPart], parameters: Parameters) -> Parameters:
        """Weights on the grown parts: of the same function, or near to it where features are square roots."""
        weights, before = [], self._split(parameters.weights)
        for part, basis, of_part, after in zip(self.parts, self._maps, before, grown, strict=True):
            if basis is None:
                flows = np.zeros((*of_part.shape[:2], len(part.weighted)))
                flows[..., part.weighted] = of_part
                weights.append(flows[..., after.origin][..., after.part.weighted])
            else:
                first = len(part.weighted) - basis.n_weights
                weights.append(of_part[..., after.origin[first:] - first])
        return Parameters(_joined(weights), parameters.bias)

    def _split(self, weights: FloatArray) -> list[NDArray[np.float64]]:
        """Per part (n_sets, n_cells, width)."""
        stops = list(accumulate(cells * width for cells, width in self._shapes))
        return [
            weights[:, stop - cells * width : stop].reshape(len(weights), cells, width)
            for stop, (cells, width) in zip(stops, self._shapes, strict=True)
        ]


def _joined(weights: list[FloatArray]) -> FloatArray:
    return np.concatenate([of_part.reshape(len(of_part), -1) for of_part in weights], axis=1)
