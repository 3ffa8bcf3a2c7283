"""The features of a data set, kept in memory where they fit, else recomputed chunk by chunk whenever they are read.

Kept features grow with the circuits: after a round of splits only those that are new are computed. Where the precision
is `fixed16` a feature f in [0, 1] is kept as the 16-bit integer nearest to 65535 f, with `fixed8` as the 8-bit integer
nearest to 255 f, and computed with in float32.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray, even_cuts
from lcml.backend import Array, Backend, FeaturePrecision, evaluation_precision
from lcml.backend.threads import at_most
from lcml.circuits.parts import GrownPart, Part
from lcml.circuits.views import View
from lcml.inputs.rows import Joined, Matrix, up_to
from lcml.passes.feature_map import FIXED_POINT, FeatureMap, inputs_read
from lcml.passes.feature_rows import rows_after
from lcml.passes.flows import check_probabilities

_Out = TypeVar("_Out")
_Sums: TypeAlias = "Callable[[Known, Chunk], tuple[Array, ...]]"
_Which: TypeAlias = Sequence[int] | None
_RUNS = 16  # partial sums over chunks; more than the cores of most machines, few enough to add up at no cost

_SPARE_ROWS = 1.25
"""A kept chunk that must grow is given this much more than it needs now, as far as features may ever need it."""

_FEW_VALUES = 1 << 18
"""Chunks of fewer values are read in less time than threads take to hand them out."""

_BLOCK_ROWS = 2048
"""Rows that a matrix product reads at once: with the examples of a chunk a few megabytes, which a cache holds."""


class Chunk:
    """Features of some examples, (n_rows, n_examples), as they are kept, or computed once they are asked for; do not
    change them.

    They are kept divided by `scale`. Products with them read block after block of rows, so that what is widened to
    floats stays in the cache.
    """

    def __init__(
        self, rows: Callable[[], Array], backend: Backend, examples: Callable[[], Array], scale: float = 1.0
    ) -> None:
        self._of_rows, self._backend, self._examples, self._scale = rows, backend, examples, scale

    @cached_property
    def _rows(self) -> Array:
        return self._of_rows()

    def examples(self) -> Array:
        """(n_examples, n_inputs) the encoded examples, as far as circuits that are split read them."""
        return self._examples()

    def of(self, which: NDArray[np.integer]) -> "Chunk":
        """A copy with the examples numbered so within the chunk."""
        xp, numbers = self._backend.xp, self._backend.asarray(which)
        rows, examples = xp.take(self._rows, numbers, axis=1), self._examples
        return Chunk(lambda: rows, self._backend, lambda: xp.take(examples(), numbers, axis=0), self._scale)

    def values(self) -> Array:
        """(n_rows, n_examples) the features as floats."""
        blocks = (self._backend.floats(self._rows[block, :], self._scale) for block in self._blocks())
        return self._backend.xp.concat([self._backend.copy(block) for block in blocks], axis=0)

    def weighted_sum(self, weights: Array) -> Array:
        """(n_sets, n_examples) weights @ features, for weights (n_sets, n_rows)."""
        total = None
        for block in self._blocks():
            part = self._backend.weighted_sum(weights[:, block], self._rows[block, :], self._scale)
            total = part if total is None else total + part
        return total

    def correlation(self, signal: Array) -> Array:
        """(n_sets, n_rows) signal @ features.T for signal (n_sets, n_examples)."""
        blocks = (self._rows[block, :] for block in self._blocks())
        return self._backend.xp.concat(
            [self._backend.correlation(signal, rows, self._scale) for rows in blocks], axis=1
        )

    def _blocks(self) -> Iterator[slice]:
        n_rows = self._rows.shape[0]
        return (slice(first, min(first + _BLOCK_ROWS, n_rows)) for first in range(0, n_rows, _BLOCK_ROWS))


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a chunk's examples beside their features: its number, class codes, how often each counts."""

    number: int
    labels: NDArray[np.int64]
    counts: FloatArray


class Features(ABC):
    """Features of `parts`, chunk by chunk, wherever the chunks are.

    row_of (n_features,): the row of a chunk that each feature has. Functions of chunks are sent to where these are.
    """

    parts: tuple[Part, ...]
    backend: Backend
    n_examples: int
    row_of: NDArray[np.int64]
    dtype: np.dtype[Any]

    @property
    def n_features(self) -> int:
        return sum(part.n_features for part in self.parts)

    @property
    def n_rows(self) -> int:
        """Rows of a chunk; those that `row_of` does not name hold numbers that mean nothing."""
        return int(self.row_of.max(initial=-1)) + 1

    @property
    def n_chunks(self) -> int:
        return -(-self.n_examples // self.backend.chunk_examples)

    def sizes(self, chunks: Sequence[int], step: int = 1) -> list[int]:
        """How many examples each of `chunks` holds, the last of all perhaps few; of one in `step` of them."""
        size = self.backend.chunk_examples
        return [-(-min(size, self.n_examples - chunk * size) // step) for chunk in chunks]

    def share(self, chunks: Sequence[int], step: int = 1) -> float:
        """The share of all examples that `chunks` hold; of one in `step` of theirs."""
        return sum(self.sizes(chunks, step)) / self.n_examples

    def first_of(self, chunks: Sequence[int], n: float) -> Sequence[int]:
        """The first of `chunks`, as many as hold `n` examples, or all."""
        return chunks[: int(np.searchsorted(np.cumsum(self.sizes(chunks)), n)) + 1]

    @abstractmethod
    def label(self, labels: NDArray[np.int64], counts: FloatArray) -> None:
        """Say of which class every example is, and how often it counts."""

    @abstractmethod
    def map(self, function: Callable[[Known, Chunk], _Out], which: _Which = None) -> Iterator[_Out]:
        """function(known, chunk) of all chunks in order, or of the chunks `which`; on the CPU several at a time."""

    @abstractmethod
    def sum(self, function: _Sums, which: _Which = None) -> list[Array]:
        """The sum over chunks of the arrays that `function` returns, in float64."""

    @abstractmethod
    def grow(self, grown: Sequence[GrownPart]) -> None:
        """Follow the parts through a round of splits."""


class FeatureStore(Features):
    """Features of `parts` for encoded examples (n_examples, n_inputs), in this process.

    budget: bytes that kept features may take, by default the backend's; most_features: the most that the parts may grow
    to, None if unknown; n_examples: how many of the examples, the first ones, are read until `extend` says more. Raises
    DataError where the examples are not in [0, 1] or of the wrong width.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        examples: Matrix,
        backend: Backend,
        *,
        precision: FeaturePrecision = "float32",
        budget: int | None = None,
        most_features: int | None = None,
        n_examples: int | None = None,
    ) -> None:
        self.parts, self.backend = tuple(parts), backend
        self.n_examples = len(examples) if n_examples is None else n_examples
        self._examples: Matrix = examples
        stored_type, self._scale = FIXED_POINT.get(precision, (precision, 1))
        self._stored_type = np.dtype(stored_type)
        self.dtype = np.dtype(evaluation_precision(precision))
        self._budget = backend.memory_budget() if budget is None else budget
        self._most_features = most_features
        self._unlabel()
        self._maps: list[FeatureMap] | None = None
        self._chunks: list[Array] | None = None
        self._begin()
        if not self.is_in_memory:
            self._check(range(self.n_chunks))

    @property
    def is_in_memory(self) -> bool:
        """Whether the features are in memory, or else recomputed at every reading."""
        return self._chunks is not None

    @property
    def n_bytes(self) -> int:
        """What all features take in memory, or would take."""
        return self._bytes(self.n_rows)

    def label(self, labels: NDArray[np.int64], counts: FloatArray) -> None:
        self._labels, self._counts = labels, counts

    def map(self, function: Callable[[Known, Chunk], _Out], which: _Which = None) -> Iterator[_Out]:
        read = self._reader()
        return self.backend.map(lambda index: function(*read(index)), range(self.n_chunks) if which is None else which)

    def sum(self, function: _Sums, which: _Which = None) -> list[Array]:
        """As `Features.sum`, in a fixed number of runs, so that the number of threads changes nothing."""
        read = self._reader()
        xp, chosen = self.backend.xp, range(self.n_chunks) if which is None else which

        def add_up(run: Sequence[int]) -> list[Array]:
            total: list[Array] = []
            for index in run:
                arrays = function(*read(index))
                if not total:
                    total = [xp.astype(array, xp.float64) for array in arrays]
                else:
                    for of_run, array in zip(total, arrays, strict=True):
                        of_run += array
            return total

        runs = [chosen[first:stop] for first, stop in pairwise(even_cuts(len(chosen), _RUNS)) if stop > first]
        with at_most(1) if self.n_rows * self.backend.chunk_examples < _FEW_VALUES else nullcontext():
            totals = list(self.backend.map(add_up, runs))
        return [sum(arrays[1:], start=arrays[0]) for arrays in zip(*totals, strict=True)]

    def grow(self, grown: Sequence[GrownPart]) -> None:
        before, self.parts, self._maps = self.parts, tuple(part.part for part in grown), None
        if self._chunks is None:
            self._begin()
            return
        self.row_of, fresh = rows_after(before, grown, self.row_of)
        if not self._fits(self.n_rows):
            self.row_of, self._chunks = np.arange(self.n_features), None
            return
        new = [
            (FeatureMap(part.view, part.circuit, wanted, self.backend), rows)
            for part, (wanted, rows) in zip(self.parts, fresh, strict=True)
            if wanted.size
        ]
        n_read = _behind_inputs(feature_map.view for feature_map, _ in new)

        def extend(index: int) -> Array:
            assert self._chunks is not None
            chunk, self._chunks[index] = self._with_room(self._chunks[index]), None
            examples = self._encoded(index, n_read)
            for feature_map, rows in new:
                feature_map.write(examples, chunk, rows, scale=self._scale)
            return chunk

        self._chunks = list(self.backend.map(extend, range(self.n_chunks)))

    def keep(self, parts: Sequence[Part], which: NDArray[np.integer]) -> None:
        """Have the features of `parts` alone, which are those numbered `which` here; what memory holds is not computed
        again."""
        rows = self.backend.asarray(self.row_of[which])
        self.parts, self._maps = tuple(parts), None
        if self._chunks is None:
            self._begin()
            return

        def kept(index: int) -> Array:
            assert self._chunks is not None
            chunk, self._chunks[index] = self._chunks[index], None
            fresh = self.backend.reserve((len(which), chunk.shape[1]), self._stored_type)
            fresh[...] = self.backend.xp.take(chunk, rows, axis=0)
            return fresh

        self.row_of = np.arange(len(which))
        self._chunks = list(self.backend.map(kept, range(self.n_chunks)))

    def extend(self, n_examples: int) -> None:
        """Read the first `n_examples`, more than before, which were whole chunks; their labels are to be said anew."""
        n_kept, self.n_examples = self.n_chunks, n_examples
        self._unlabel()
        if self.is_in_memory and self._fits(self.n_rows):
            self._maps = None
            self._keep(n_kept)
            return
        self._check(range(n_kept, self.n_chunks))
        if self.is_in_memory:
            self.row_of, self._chunks = np.arange(self.n_features), None

    def join(self, other: "FeatureStore") -> None:
        """Have the examples of another store of the same parts behind these; what both keep is not computed again. All
        labels are to be said anew."""
        whole, size = self.n_examples // self.backend.chunk_examples, self.backend.chunk_examples
        chunks, others, n_rows, xp = self._chunks, other._chunks, self.n_rows, self.backend.xp
        self._examples = Joined(self._examples, other._examples)
        self.n_examples, self._budget = self.n_examples + other.n_examples, self._budget + other._budget
        self._unlabel()
        self._chunks = None
        if chunks is None or others is None or not np.array_equal(self.row_of, other.row_of):
            self._begin()
            return
        rest = xp.concat([chunk[:n_rows, :] for chunk in (*chunks[whole:], *others)], axis=1)
        cut = [self.backend.copy(rest[:, first : first + size]) for first in range(0, rest.shape[1], size)]
        self._chunks = [*chunks[:whole], *cut]

    def _unlabel(self) -> None:
        self.label(np.broadcast_to(np.int64(0), self.n_examples), np.broadcast_to(1.0, self.n_examples))

    def _begin(self) -> None:
        self.row_of = np.arange(self.n_features)
        if self._fits(self.n_features):
            self._keep()

    def _check(self, chunks: Iterable[int]) -> None:
        def check(index: int) -> None:
            self._checked(index)

        for _ in self.backend.map(check, chunks):
            pass

    def _checked(self, index: int) -> NDArray[Any]:
        """The encoded examples of a chunk that nobody has read yet. Raises DataError where they are none."""
        values = self._examples[self._examples_of(index)]
        check_probabilities(values, self.parts[0].view.n_inputs)
        return values

    def _keep(self, n_kept: int = 0) -> None:
        """Compute the features of the chunks behind those kept."""
        kept, rest = (self._chunks or [])[:n_kept], range(n_kept, self.n_chunks)
        fresh = self.backend.map(lambda index: self._fresh(index, to_keep=True), rest)
        self._chunks = [*kept, *fresh]

    def _reader(self) -> Callable[[int], tuple[Known, Chunk]]:
        """What is known of a chunk, and its features, by its number."""
        n_rows, chunks = self.n_rows, self._chunks

        def read(index: int) -> tuple[Known, Chunk]:
            examples = self._examples_of(index)
            known = Known(index, self._labels[examples], self._counts[examples])
            scale = 1.0 if chunks is None else 1 / self._scale
            rows = (lambda: self._fresh(index)) if chunks is None else (lambda: chunks[index][:n_rows, :])
            return known, Chunk(rows, self.backend, lambda: self._encoded(index, self._n_split), scale)

        return read

    def _examples_of(self, index: int) -> slice:
        size = self.backend.chunk_examples
        return slice(index * size, min((index + 1) * size, self.n_examples))

    @cached_property
    def _n_split(self) -> int:
        """Up to which input circuits that are split read."""
        return _behind_inputs(part.view for part in self.parts if part.view.grows)

    def _encoded(self, index: int, n_inputs: int) -> Array:
        """The encoded examples of a chunk, of whose inputs the first `n_inputs` are read."""
        examples = up_to(self._examples, n_inputs)
        return self.backend.asarray(examples[self._examples_of(index)], dtype=self.dtype)

    def _fits(self, n_rows: int) -> bool:
        return self._bytes(n_rows) <= self._budget

    def _bytes(self, n_rows: int) -> int:
        return n_rows * self.n_examples * self._stored_type.itemsize

    def _fresh(self, index: int, *, to_keep: bool = False) -> Array:
        if self._maps is None:
            self._maps = [FeatureMap(part.view, part.circuit, part.flows, self.backend) for part in self.parts]
        scale, dtype = (self._scale, self._stored_type) if to_keep else (1, self.dtype)
        values = self._checked(index) if to_keep else self._examples[self._examples_of(index)]
        examples = self.backend.asarray(values, dtype=self.dtype)
        array = self.backend.reserve if to_keep else self.backend.empty
        n_rows = max(self.n_rows, self._most_rows()) if to_keep else self.n_rows
        chunk = array((n_rows, examples.shape[0]), dtype)
        first = 0
        for feature_map in self._maps:
            rows = self.row_of[first : first + feature_map.n_rows]
            feature_map.write(examples, chunk, rows, scale=scale)
            first += feature_map.n_rows
        return chunk

    def _with_room(self, chunk: Array) -> Array:
        n_rows = self.n_rows
        if chunk.shape[0] >= n_rows:
            return chunk
        spare = int(n_rows * _SPARE_ROWS)
        rows = max(n_rows, min(spare, self._most_rows(spare)))
        larger = self.backend.reserve((rows, chunk.shape[1]), self._stored_type)
        larger[: chunk.shape[0], :] = chunk
        return larger

    def _most_rows(self, unless_known: int = 0) -> int:
        """Rows that a chunk may ever need, as far as the budget goes. It has them from the beginning: memory that is
        not written to is not taken, and chunks that move as they grow leave holes which no other chunk fits."""
        affordable = self._budget // (max(1, self.n_examples) * self._stored_type.itemsize)
        return min(self._most_features or unless_known, affordable)


def _behind_inputs(views: Iterable[View]) -> int:
    """The number of the input behind the last that one of the views reads."""
    return max((inputs_read(view)[1] for view in views), default=0)
