"""What a model takes and gives: all that reading a request and rendering its answer need to know of it."""

from dataclasses import dataclass
from typing import Any

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
class Signature:
    """Name, version, input, outputs and feature names of a model; it can be sent to another process."""

    name: str
    version: str
    input: TensorSpec
    outputs: tuple[TensorSpec, ...]
    feature_names: tuple[str, ...] | None

    @property
    def n_features(self) -> int:
        return self.input.shape[1]

    @property
    def predictions(self) -> tuple[str, ...]:
        """The outputs of a plain inference, in the model's order."""
        return tuple(output.name for output in self.outputs if output.name in PREDICTIONS)

    def output(self, name: str) -> TensorSpec | None:
        return next((output for output in self.outputs if output.name == name), None)
