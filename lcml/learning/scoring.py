"""Score every possible split of a circuit: which element to split on which variable.

After splitting element e (flow f_i of example i) on a free variable v (value x_iv) the new feature is exactly
phi_i = f_i x_iv. With residuals r_ik = p_ik - t_ik and curvatures h_ik = p_ik (1 - p_ik), weighted by example:

    gain      (second order)  sum_k (G - G0 C / D)^2 / (H - C^2 / D + l2)
              G0 = sum r f, G = sum r phi, H = sum h phi^2, C = sum h f phi, D = sum h f^2 + l2
              the decrease of the loss, times two, when phi's weight is fitted beside that of f
    variance  (Liang & Van den Broeck, AAAI 2019, section 4.2) the weighted variance of the partial derivatives r_ik f_i
              before the split less that within the groups weighted by x_iv and 1 - x_iv, each group by its share of e's
              flow; the split whose groups vary least, summed over classes, is the best of its element

Of a view with windows, f_i and phi_i are the pooled features of a cell: flows and literals meet window by window, are
pooled, square-rooted where the view says so, and only then squared; the scores of all cells add up. Only the features
that free pairs (e, v) would give are computed, equal ones once, and none of an element whose flow is too little for two
halves.

Sums may be estimated from a sample of the examples. Every term r f, r phi, h phi^2, ... of an example lies in [-1, 1],
so that of n examples drawn at random the mean of each of m such terms is within sqrt(2 log(2 m / delta) / n) of that of
all examples, for all m at once, with probability 1 - delta (Hoeffding's inequality and a union bound; drawing without
replacement is no worse). The race (Maron & Moore, Hoeffding Races, NIPS 1993) scores every pair on n / SCREEN examples
and the best few of every element again on all n: with n / SCREEN the bound holds for what the first stage leaves out;
with n it holds for all pairs at once, hence for those that are scored again. What the race costs in gain is measured in
docs/benchmarks.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Array
from lcml.learning.criteria import Criterion, second_derivatives
from lcml.learning.objective import Loss, Objective
from lcml.learning.pairs import ElementFlow, Pairs, PairSums, free_pairs
from lcml.learning.parameters import Parameters
from lcml.passes.feature_store import Chunk, Known
from lcml.passes.products import NO_PAIRS

__all__ = ["Candidates", "Criterion", "race_splits", "score_splits"]

SCREEN = 4
"""Every pair is scored on one in so many examples of the sample."""

FINALISTS = 4
"""So many variables of every element are scored again on the whole sample."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Splits with their scores, in no order: part, element, variable (n_candidates,), score (larger is better)."""

    part: NDArray[np.int64]
    element: NDArray[np.int64]
    variable: NDArray[np.int64]
    score: NDArray[np.float64]


def score_splits(
    objective: Objective,
    parameters: Parameters,
    criterion: Criterion = "gain",
    *,
    minimum_support: float = 1.0,
    per_element: int = 1,
    chunks: Sequence[int] | None = None,
) -> Candidates:
    """The best `per_element` splits of every element whose two halves both keep enough flow.

    minimum_support: the least flow of either half, in examples by their weights (over the chunks read, scaled to all
    examples; averaged over the cells of the view); chunks: the chunks of the feature store to read, all by default.
    """
    scorer = _SplitScorer(objective, parameters, criterion, minimum_support, chunks)
    return scorer.score(scorer.every_pair(scorer.chunks), per_element, scorer.chunks)


def race_splits(
    objective: Objective,
    parameters: Parameters,
    criterion: Criterion = "gain",
    *,
    minimum_support: float = 1.0,
    per_element: int = 1,
    chunks: Sequence[int] | None = None,
    screen: int = SCREEN,
    finalists: int = FINALISTS,
) -> Candidates:
    """As `score_splits`, of the `finalists` of every element that score best on one in `screen` examples.

    Those are the examples of the first of `chunks`, as many as hold so many, or, of few chunks, some of each.
    """
    scorer = _SplitScorer(objective, parameters, criterion, minimum_support, chunks)
    features, few = scorer.features, len(scorer.chunks) < screen
    some = scorer.chunks if few else features.first_of(scorer.chunks, sum(features.sizes(scorer.chunks)) / screen)
    step = screen if few else 1
    best = scorer.score(scorer.every_pair(some, step), finalists, some, step)
    pairs = np.stack([best.element, best.variable])
    return scorer.score([pairs[:, best.part == part] for part in range(len(scorer.parts))], per_element, scorer.chunks)


class _Derivatives:
    """Weights, first and second derivatives of the loss of a chunk, each (n_examples, n_sets) or (n_examples, 1):
    computed once for every chunk, and once more wherever they are sent to."""

    def __init__(self, terms: Loss, criterion: Criterion, weights: Array, bias: Array) -> None:
        self._given = terms, criterion, weights, bias
        self._of_chunk: dict[int, tuple[Array, ...]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    def of(self, known: Known, chunk: Chunk) -> tuple[Array, ...]:
        if known.number not in self._of_chunk:
            terms, criterion, weights, bias = self._given
            logits = chunk.weighted_sum(weights) + bias
            weight = terms.backend.asarray(known.counts, dtype=logits.dtype)[None, :]
            first, second = terms.residual(logits, known), terms.curvature(logits, known)
            second = second_derivatives(terms.backend.xp, criterion, weight, first, second)
            self._of_chunk[known.number] = tuple(terms.backend.copy(array.T) for array in (weight, first, second))
        return self._of_chunk[known.number]


class _SplitScorer:
    """Scores pairs on chunks of examples."""

    def __init__(
        self,
        objective: Objective,
        parameters: Parameters,
        criterion: Criterion,
        minimum_support: float,
        chunks: Sequence[int] | None,
    ) -> None:
        self.features, self.parts = objective.features, objective.features.parts
        self.chunks = range(self.features.n_chunks) if chunks is None else chunks
        self._criterion, self._minimum_support, self._l2 = criterion, minimum_support, objective.l2
        self._derivatives = _Derivatives(objective.terms, criterion, *objective.on_device(parameters))

    def every_pair(self, chunks: Sequence[int], step: int = 1) -> list[Pairs]:
        """All pairs of elements with flow enough for two halves on one in `step` examples of `chunks`."""
        backend, derivatives = self.features.backend, self._derivatives
        pairs = [free_pairs(part.circuit) if part.view.grows else NO_PAIRS for part in self.parts]
        flows = [ElementFlow(part, backend) for part, found in zip(self.parts, pairs, strict=True) if found.size]

        def sums(known: Known, chunk: Chunk) -> tuple[Array, ...]:
            some, weight = backend.copy(chunk.examples()[::step, :]), derivatives.of(known, chunk)[0][::step, :]
            return tuple(flow.sum(some, weight) for flow in flows)

        totals = iter([backend.to_host(total) for total in self.features.sum(sums, chunks)])
        least = 2 * self._minimum_support * self.features.share(chunks, step)
        return [found[:, next(totals)[found[0]] >= least] if found.size else found for found in pairs]

    def score(self, pairs: list[Pairs], per_element: int, chunks: Sequence[int], step: int = 1) -> Candidates:
        """The best `per_element` of `pairs` of every element by one in `step` examples of `chunks`."""
        share = self.features.share(chunks, step)
        support, l2 = self._minimum_support * share, self._l2 * share
        backend, criterion, derivatives = self.features.backend, self._criterion, self._derivatives
        scorers = [
            (number, PairSums(part, backend, criterion, of_part))
            for number, (part, of_part) in enumerate(zip(self.parts, pairs, strict=True))
            if of_part.size
        ]
        if not scorers:
            nothing = np.empty(0, dtype=np.int64)
            return Candidates(nothing, nothing, nothing, np.empty(0))

        def sums(known: Known, chunk: Chunk) -> tuple[Array, ...]:
            some = backend.copy(chunk.examples()[::step, :])
            of_some = [backend.copy(array[::step, :]) for array in derivatives.of(known, chunk)]
            return tuple(array for _, scorer in scorers for array in scorer.sums(some, *of_some))

        totals = iter([backend.to_host(total) for total in self.features.sum(sums, chunks)])
        found = []
        for number, scorer in scorers:
            best, score = scorer.best(totals, support, l2, per_element)
            found.append((np.full(len(score), number), *best, score))
        return Candidates(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))
