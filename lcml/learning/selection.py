"""Choose, among scored splits, those that a round applies: the most score per element that the model gains."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from lcml.circuits.parts import GrownPart, Part, grow_part
from lcml.circuits.splits import Split, SplitCosts, apply_splits
from lcml.learning.scoring import Candidates


@dataclass(frozen=True)
class ChosenSplit:
    """A split that a round applies, its score, and how many elements it alone adds, counted once for every cell."""

    split: Split
    score: float
    added: int


def choose_splits(parts: Sequence[Part], candidates: Candidates, max_added: int, depth: int = 0) -> list[ChosenSplit]:
    """The best candidates by score per added element, until they add `max_added` elements together.

    An element counts once for every cell of its part's view, for which it has weights of its own.

    Of candidates that would give the same new feature (equal flow, same variable) only the best stands.
    """
    costs = [SplitCosts(part.circuit, depth) for part in parts]
    flow_class = [part.circuit.flow_class.tolist() for part in parts]
    columns = (candidates.part, candidates.element, candidates.variable, candidates.score)
    scored = []
    for part, element, variable, score in zip(*(column.tolist() for column in columns), strict=True):
        split = Split(element, variable, part)
        scored.append(ChosenSplit(split, score, parts[part].view.n_cells * costs[part].added(split)))
    scored.sort(key=lambda choice: (-choice.score / max(choice.added, 1), choice.split.part, choice.split.element))
    chosen: list[ChosenSplit] = []
    seen: set[tuple[int, int, int]] = set()
    elements: set[tuple[int, int]] = set()
    total = 0
    for choice in scored:
        part, element = choice.split.part, choice.split.element
        feature = (part, flow_class[part][element], choice.split.variable)
        if feature in seen or (part, element) in elements or total + choice.added > max_added:
            continue
        seen.add(feature)
        elements.add((part, element))
        chosen.append(choice)
        total += choice.added
    return chosen


def apply_to_parts(parts: Sequence[Part], splits: Sequence[Split], depth: int = 0) -> list[GrownPart]:
    """Every part after its own splits."""
    return [
        grow_part(part, apply_splits(part.circuit, [split for split in splits if split.part == number], depth))
        for number, part in enumerate(parts)
    ]


def parts_after(parts: Sequence[Part], history: Sequence[Sequence[Split]], depth: int) -> tuple[Part, ...]:
    """What the rounds of splits of `history` make of `parts`."""
    for splits in history:
        parts = [grown.part for grown in apply_to_parts(parts, splits, depth)]
    return tuple(parts)


def apply_within(
    parts: Sequence[Part],
    chosen: list[ChosenSplit],
    max_features: int | None,
    max_elements: int | None = None,
    depth: int = 0,
) -> tuple[list[ChosenSplit], list[GrownPart]]:
    """Apply the chosen splits, or as many of the first of them as keep the parts within the limits.

    What splits made together cost is known when they are made: a copy may be split too, and an element may come
    without an independent feature. So their number is found by trial: where a straight line between two known numbers
    meets the limit, and every third time halfway.
    """

    def excess(after: Sequence[Part]) -> int:
        """How far the parts are beyond a limit, or, below 0, from the nearer one."""
        n_features = sum(part.n_features for part in after)
        n_elements = sum(part.circuit.n_elements for part in after)
        present = (max_features, n_features), (max_elements, n_elements)
        return max((number - limit for limit, number in present if limit is not None), default=-1)

    def grown_by(number: int) -> tuple[list[GrownPart], int]:
        grown = apply_to_parts(parts, [choice.split for choice in chosen[:number]], depth)
        return grown, excess([part.part for part in grown])

    least, most, below = 0, len(chosen), excess(parts)
    within: list[GrownPart] | None = None
    grown, above = grown_by(most)
    if above <= 0:
        return chosen, grown
    trials = itertools.count()
    while most - least > 1:
        share = 0.5 if next(trials) % 3 == 2 or below > 0 else below / (below - above)
        middle = min(max(least + 1, round(least + share * (most - least))), most - 1)
        grown, found = grown_by(middle)
        if found <= 0:
            least, below, within = middle, found, grown
        else:
            most, above = middle, found
    return chosen[:least], grown_by(least)[0] if within is None else within
