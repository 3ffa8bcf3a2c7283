"""Whether a decision stays as it is while some inputs vary: proved by bounds, refuted by an example, or left open.

Branch and bound (Land & Doig, Econometrica 1960) over boxes, which leave every free input some of the values of
`lcml.explain.domains`. A box whose margins are bounded to keep the decision is done; of others one input's values are
halved, those of the lowest bound first, until every input has one value: an example, which the model decides. Under
roots, and where channels are made of inputs, margins may be lowest between values: there only the first bound counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.errors import DataError
from lcml.explain.bounds import MarginBounds, Margins
from lcml.explain.domains import Domain
from lcml.inputs.table import Table
from lcml.model.model import LogisticCircuit

WORK = 1 << 25
"""Nodes of circuits that one question may look at."""

MOST_BOXES = 256
"""Boxes that one question may look at: more close few questions that so many leave open, and each takes a second."""

BATCH = 32
"""Boxes that are halved together."""

DESCENT = 4096
"""Examples up to which a step of a descent tries every value of every free input."""

MOST_STEPS = 12


@dataclass(frozen=True, eq=False)
class Verdict:
    """kept: whether all values keep the decision, None where that was left open; other: codes (d,) that change it."""

    kept: bool | None
    other: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class _Box:
    """choices: places of the values that every free input has left; low, high (n_outputs,): ends of the variables, of
    channels those of the encoder below; linear (n_margins,): at least what single inputs add."""

    choices: dict[int, NDArray[np.intp]]
    low: FloatArray
    high: FloatArray
    linear: FloatArray


class Search:
    """Questions about one example of a model: what happens to its class while inputs vary. work: see WORK."""

    def __init__(self, model: LogisticCircuit, example: Any, *, known: bool = False, work: int = WORK) -> None:
        rows = example if isinstance(example, Table) else [example]
        if model.missing is not None and np.isnan(model.encoder.encode(rows, gaps=True)).any():
            raise DataError("the example lacks an input, and its label is by the policy for that; fill it in")
        self.model = model
        self.domain = Domain.of(model.encoder, example, known=known)
        self.own_logits = model.logits(self.domain.raw(self.domain.own[None]), precision="float64")
        self.code = int(model.codes(self.own_logits)[0])
        self.margins = Margins(model, self.code)
        self._bounds = MarginBounds(self.margins)
        n_boxes = work // max(1, self._bounds.size * len(self.margins.signs))
        self._most_boxes = min(max(BATCH, n_boxes), MOST_BOXES)
        self._others: list[FloatArray] = []

    @cached_property
    def singles(self) -> list[FloatArray]:
        """By input, the margins (n_values, n_margins) with each of its values in place of its own."""
        found = self.margins.of(self.domain, _changed(self.domain.own, list(enumerate(self.domain.values))))
        cuts = np.cumsum([len(values) for values in self.domain.values])[:-1]
        return np.split(found, cuts)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The inputs, those first whose own values matter least: the lowest margin that changing it alone gives."""
        return np.argsort([-float(margins.min()) for margins in self.singles], kind="stable")

    def decide(self, free: NDArray[np.bool_]) -> Verdict:
        """Whether the class stays for all values of the free inputs (d,) and the example's own of the others."""
        for known in self._others:
            if not differ(known, self.domain.own)[~free].any():
                return Verdict(False, known)
        root = self._root(free)
        if self._opened([root]) == [None]:
            return Verdict(True)
        other = self._descent(free)
        verdict = Verdict(False, other) if other is not None else self._branch(root)
        if verdict.other is not None:
            self._others.append(verdict.other)
        return verdict

    def unproved(self, sets: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The sets of inputs of which a bound alone does not prove that the class stays while they vary."""
        left = []
        for first in range(0, len(sets), 2 * BATCH):
            some = sets[first : first + 2 * BATCH]
            bounds = self._opened([self._root(self.mask(inputs)) for inputs in some])
            left += [inputs for inputs, bound in zip(some, bounds, strict=True) if bound is not None]
        return left

    def mask(self, inputs: Sequence[int]) -> NDArray[np.bool_]:
        """(d,) the inputs with these numbers."""
        free = np.zeros(self.domain.n_inputs, bool)
        free[list(inputs)] = True
        return free

    def keeps(self, codes: FloatArray) -> NDArray[np.bool_]:
        """(n,) whether examples of codes (n, d) get the same class."""
        return np.asarray(self.margins.kept(self.margins.of(self.domain, codes)).all(axis=1))

    def _opened(self, boxes: list[_Box]) -> list[float | None]:
        """By box, the lowest bound of a margin; None where all keep the decision."""
        low, high = (np.array([getattr(box, name) for box in boxes]) for name in ("low", "high"))
        low, high = self.domain.ranges(low, high)
        linear = np.array([box.linear for box in boxes])
        if not self.domain.has_blocks:
            weights = self._bounds.linear.T
            linear = low @ np.maximum(weights, 0) + high @ np.minimum(weights, 0)
        least = self._bounds.rest(low, high) + linear
        kept = np.asarray(self.margins.kept(least).all(axis=1))
        return [None if kept[i] else lowest for i, lowest in enumerate(least.min(axis=1).tolist())]

    def _root(self, free: NDArray[np.bool_]) -> _Box:
        choices = {int(j): np.arange(len(self.domain.values[j])) for j in np.flatnonzero(free)}
        q, linear = self._own
        low, high, linear = q.copy(), q.copy(), linear.copy()
        for j in choices:
            span = slice(self._starts[j], self._starts[j + 1])
            low[span], high[span] = self._ends[0][span], self._ends[1][span]
            linear += self._least_added[j] - self._added[j][0]
        return _Box(choices, low, high, linear)

    @cached_property
    def _own(self) -> tuple[FloatArray, FloatArray]:
        """The example's own variables, and what they add."""
        q = np.concatenate([values[0] for values in self.domain.encoded])
        return q, np.sum([added[0] for added in self._added], axis=0)

    @cached_property
    def _ends(self) -> list[FloatArray]:
        """The least and the largest of all variables."""
        return [np.concatenate([end(q, axis=0) for q in self.domain.encoded]) for end in (np.min, np.max)]

    @cached_property
    def _least_added(self) -> FloatArray:
        """(d, n_margins) the least that every input adds by itself."""
        return np.array([added.min(axis=0) for added in self._added])

    def _least(self, j: int, chosen: NDArray[np.intp]) -> FloatArray:
        """(n_margins,) the least that an input adds by itself."""
        return np.asarray(self._added[j][chosen].min(axis=0))

    @cached_property
    def _added(self) -> list[FloatArray]:
        """By input, what its values add by themselves (n_values, n_margins)."""
        starts, linear = self._starts, self._bounds.linear
        if not self.domain.has_blocks:
            return [np.zeros((len(q), len(linear))) for q in self.domain.encoded]
        return [q @ linear[:, starts[j] : starts[j + 1]].T for j, q in enumerate(self.domain.encoded)]

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        return np.cumsum([0, *(q.shape[1] for q in self.domain.encoded)])

    def _halves(self, box: _Box) -> Iterator[_Box]:
        """The box with the values of one input halved: of those with several the one that may matter most."""
        j = max((j for j, chosen in box.choices.items() if len(chosen) > 1), key=self._rank.__getitem__)
        chosen = box.choices[j]
        chosen = chosen[np.argsort(self.domain.values[j][chosen], kind="stable")]
        span = slice(self._starts[j], self._starts[j + 1])
        before = self._least(j, chosen)
        for half in np.array_split(chosen, 2):
            low, high = box.low.copy(), box.high.copy()
            low[span], high[span] = (end(self.domain.encoded[j][half], axis=0) for end in (np.min, np.max))
            yield _Box(box.choices | {j: half}, low, high, box.linear - before + self._least(j, half))

    @cached_property
    def _rank(self) -> dict[int, int]:
        return {int(j): rank for rank, j in enumerate(self.order)}

    def _branch(self, root: _Box) -> Verdict:
        if not self.domain.has_blocks or any(part.view.root for part in self.model.parts):
            return Verdict(None)  # logits are not linear in every input between its values
        pending, n_boxes = [(-np.inf, root)], 0
        while pending:
            pending.sort(key=lambda entry: -entry[0])
            taken, pending = pending[-BATCH:], pending[:-BATCH]
            boxes = [half for _, box in taken for half in self._halves(box)]
            n_boxes += len(boxes)
            left = [(bound, box) for bound, box in zip(self._opened(boxes), boxes, strict=True) if bound is not None]
            done = [box for _, box in left if all(len(chosen) == 1 for chosen in box.choices.values())]
            if done and (other := self._first_other(np.array([self._codes(box) for box in done]))) is not None:
                return Verdict(False, other)
            single = {id(box) for box in done}
            pending += [(bound, box) for bound, box in left if id(box) not in single]
            if pending and n_boxes > self._most_boxes:
                return Verdict(None)
        return Verdict(True)

    def _codes(self, box: _Box) -> FloatArray:
        codes = self.domain.own.copy()
        for j, (place,) in box.choices.items():
            codes[j] = self.domain.values[j][place]
        return codes

    def _descent(self, free: NDArray[np.bool_]) -> FloatArray | None:
        """Codes that change the decision, or None: every free input's worst value at once, then one by one."""
        inputs = np.flatnonzero(free).tolist()
        if not inputs:
            return None
        starts = []
        for margin in range(len(self.margins.signs)):
            codes = self.domain.own.copy()
            for j in inputs:
                codes[j] = self.domain.values[j][self.singles[j][:, margin].argmin()]
            starts.append(codes)
        if (other := self._first_other(np.array(starts))) is not None:
            return other
        tried = [(j, self.domain.values[j]) for j in inputs]
        if sum(len(values) for _, values in tried) > DESCENT:
            return None
        found = self.margins.of(self.domain, np.array(starts)).min(axis=1)
        codes, lowest = starts[int(found.argmin())], float(found.min())
        for _ in range(MOST_STEPS):
            candidates = _changed(codes, tried)
            margins = self.margins.of(self.domain, candidates)
            best = int(margins.min(axis=1).argmin())
            if not self.margins.kept(margins[best]).all():
                return np.asarray(candidates[best])
            if margins[best].min() >= lowest:
                return None
            codes, lowest = candidates[best], float(margins[best].min())
        return None

    def _first_other(self, codes: FloatArray) -> FloatArray | None:
        """The first of codes (n, d) that the model gives another class."""
        changed = np.flatnonzero(~self.keeps(codes))
        return np.asarray(codes[changed[0]]) if len(changed) else None


def _changed(codes: FloatArray, tried: list[tuple[int, FloatArray]]) -> FloatArray:
    """The codes (d,) once for every value of every input tried, with that in its place."""
    found = np.tile(codes, (sum(len(values) for _, values in tried), 1))
    inputs = np.repeat([j for j, _ in tried], [len(values) for _, values in tried])
    found[np.arange(len(found)), inputs] = np.concatenate([values for _, values in tried])
    return found


def differ(a: FloatArray, b: FloatArray) -> NDArray[np.bool_]:
    """Where codes are not the same; gaps are."""
    return np.asarray(~((a == b) | (np.isnan(a) & np.isnan(b))))
