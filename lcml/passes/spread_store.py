"""Features that other processes hold, or that many holders do: what the chunks add up to travels, the chunks do not."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Array, Backend, FeaturePrecision, evaluation_precision
from lcml.backend.spread import Engine, added
from lcml.circuits.parts import GrownPart, Part
from lcml.inputs.rows import Matrix
from lcml.passes.feature_store import Chunk, Features, FeatureStore, Known

_Out = TypeVar("_Out")


class SpreadStore(Features):
    """The features of examples that an engine holds: arguments as those of `FeatureStore`, budget over all holders."""

    def __init__(
        self,
        engine: Engine,
        parts: Sequence[Part],
        examples: Matrix,
        backend: Backend,
        *,
        precision: FeaturePrecision,
        budget: int,
        most_features: int | None,
    ) -> None:
        self.parts, self.backend, self.n_examples = tuple(parts), backend, len(examples)
        self.dtype = np.dtype(evaluation_precision(precision))
        self._spread = engine.spread(
            _store,
            examples,
            multiple=backend.chunk_examples,
            parts=self.parts,
            backend=backend,
            precision=precision,
            bytes_per_example=budget // max(1, len(examples)),  # all keep features, or none: their rows are the same
            most_features=most_features,
        )
        self._first_chunks = [start // backend.chunk_examples for start in self._spread.starts[:-1]]
        self.row_of = self._spread.ask(attrgetter("row_of"))[0]

    def label(self, labels: NDArray[np.int64], counts: FloatArray) -> None:
        starts = self._spread.starts
        own = [slice(first, stop) for first, stop in pairwise(starts)]
        self._spread.tell_each(FeatureStore.label, [(labels[of], counts[of]) for of in own])

    def map(self, function: Callable[[Known, Chunk], _Out], which: Sequence[int] | None = None) -> Iterator[_Out]:
        chosen = range(self.n_chunks) if which is None else which
        found = map(iter, self._spread.ask_each(_mapped, [(function, own) for own in self._by_holder(chosen)]))
        iterators = list(found)
        return (next(iterators[self._holder(chunk)]) for chunk in chosen)

    def sum(
        self, function: Callable[[Known, Chunk], tuple[Array, ...]], which: Sequence[int] | None = None
    ) -> list[Array]:
        own = self._by_holder(range(self.n_chunks) if which is None else which)
        return added([sums for sums in self._spread.ask_each(_summed, [(function, chunks) for chunks in own]) if sums])

    def grow(self, grown: Sequence[GrownPart]) -> None:
        self.parts = tuple(part.part for part in grown)
        self._spread.tell(FeatureStore.grow, grown)
        self.row_of = self._spread.ask(attrgetter("row_of"))[0]

    def _holder(self, chunk: int) -> int:
        return bisect_right(self._first_chunks, chunk) - 1

    def _by_holder(self, chunks: Sequence[int]) -> list[list[int]]:
        """The chunks of every holder, in their order, by the numbers that they have there."""
        own: list[list[int]] = [[] for _ in self._first_chunks]
        for chunk in chunks:
            holder = self._holder(chunk)
            own[holder].append(chunk - self._first_chunks[holder])
        return own


def _store(values: Matrix, *, bytes_per_example: int, **options: Any) -> FeatureStore:
    return FeatureStore(examples=values, budget=bytes_per_example * len(values), **options)


def _mapped(store: FeatureStore, function: Callable[[Known, Chunk], _Out], which: Sequence[int]) -> list[_Out]:
    return list(store.map(function, which))


def _summed(
    store: FeatureStore, function: Callable[[Known, Chunk], tuple[Array, ...]], which: Sequence[int]
) -> list[Array]:
    return store.sum(function, which) if which else []
