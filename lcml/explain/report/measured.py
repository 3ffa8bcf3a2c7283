"""A model beside the examples that a report is of: what it says of them, and its features of a sample of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Backend
from lcml.explain.contributions import feature_values
from lcml.explain.groups import Group, feature_groups
from lcml.explain.names import shown_names
from lcml.inputs.rows import Matrix, select
from lcml.model.model import LogisticCircuit

SAMPLED = 2048
"""So many examples at most tell averages of features and contributions, spread evenly over all."""

_FEATURES_AT_ONCE = 1 << 22
MOST_CLASSES = 10
"""Classes with curves and pictures of their own."""


@dataclass(frozen=True, eq=False)
class Measured:
    """labels (n,): places among the model's classes; rows: which these are, train, valid, test or all; data: their
    name; warning: a sentence, where they may have trained the model."""

    model: LogisticCircuit
    features: Matrix
    labels: NDArray[np.int64]
    rows: str
    data: str
    backend: Backend
    warning: str | None = None

    @cached_property
    def _logits(self) -> FloatArray:
        return self.model.logits(self.features, self.backend)

    @cached_property
    def probabilities(self) -> FloatArray:
        """(n, n_classes)"""
        return self.model.head.probabilities(self._logits)

    @cached_property
    def predicted(self) -> NDArray[np.int64]:
        return self.model.codes(self._logits)

    @cached_property
    def of_truth(self) -> FloatArray:
        """(n,) the probability of the true class."""
        return self.probabilities[np.arange(len(self.labels)), self.labels]

    @property
    def classes(self) -> list[str]:
        return [str(name) for name in self.model.classes]

    @property
    def n_examples(self) -> int:
        return len(self.labels)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the raw features."""
        return shown_names(self.model)

    @cached_property
    def groups(self) -> list[Group]:
        return feature_groups(self.model)

    @cached_property
    def sample(self) -> NDArray[np.intp]:
        """Rows whose features are looked at."""
        n = min(self.n_examples, SAMPLED)
        return np.linspace(0, self.n_examples - 1, n).astype(np.intp)

    def chunks(self) -> Iterator[tuple[NDArray[np.intp], FloatArray]]:
        """Places in the sample, and the features (n_rows, n_features) of these rows, a few at a time."""
        step = max(1, _FEATURES_AT_ONCE // max(1, self.model.weights.shape[1]))
        for first in range(0, len(self.sample), step):
            places = np.arange(first, min(first + step, len(self.sample)))
            yield places, feature_values(self.model, self.raw(self.sample[places]), self.backend)

    def raw(self, rows: NDArray[np.intp]) -> Any:
        return select(self.features, rows)

    @cached_property
    def average(self) -> FloatArray | None:
        """(n_features,) of the sample; None of a single example, which is not held against itself."""
        if len(self.sample) < 2:
            return None
        total: FloatArray = np.sum([values.sum(axis=0) for _, values in self.chunks()], axis=0)
        return total / len(self.sample)
