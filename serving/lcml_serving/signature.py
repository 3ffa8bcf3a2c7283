"""What a model takes and gives: all that reading a request and rendering its answer need to know of it."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

PREDICTIONS = ("label", "probabilities", "logits")


@dataclass(frozen=True)
class TensorSpec:
    """Name, protocol datatype, numpy dtype and shape of an input or output; -1 is the batch."""

    name: str
    datatype: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Column:
    """A column of a table, by the metadata lcml.columns: number, date, category or ordinal; gaps: whether training
    had some; categories: those that are told, n_categories: how many there are."""

    name: str
    kind: str
    gaps: bool
    categories: tuple[str, ...] = ()
    n_categories: int = 0
    range: tuple[float | str, ...] = ()

    @classmethod
    def from_json(cls, told: Any) -> Self:
        """Of an entry of lcml.columns. Raises KeyError, TypeError, ValueError or AttributeError where it is none."""
        categories = tuple(map(str, told.get("categories", ())))
        n_categories, ends = int(told.get("n_categories", 0)), tuple(told.get("range", ()))
        return cls(str(told["name"]), str(told["kind"]), bool(told["gaps"]), categories, n_categories, ends)

    def described(self) -> dict[str, Any]:
        """As metadata and the OpenAPI description tell it."""
        told = {"name": self.name, "kind": self.kind, "gaps": self.gaps}
        if self.kind in ("category", "ordinal"):
            return told | {"categories": list(self.categories), "n_categories": self.n_categories}
        return told | {"range": list(self.range)}


@dataclass(frozen=True)
class Signature:
    """Name, version, inputs, outputs and feature names of a model; it can be sent to another process.

    inputs: a matrix (batch, n_features), or one tensor (batch, 1) for each of `columns`; takes_gaps: whether NaN in a
    matrix is a missing input that the model knows what to do without.
    """

    name: str
    version: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    feature_names: tuple[str, ...] | None
    columns: tuple[Column, ...] = ()
    takes_gaps: bool = False

    @property
    def input(self) -> TensorSpec:
        """The one input of a model that takes a matrix."""
        return self.inputs[0]

    @property
    def n_features(self) -> int:
        return len(self.columns) or self.input.shape[1]

    @property
    def predictions(self) -> tuple[str, ...]:
        """The outputs of a plain inference, in the model's order."""
        return tuple(output.name for output in self.outputs if output.name in PREDICTIONS)

    def output(self, name: str) -> TensorSpec | None:
        return next((output for output in self.outputs if output.name == name), None)
