"""Choose, among scored splits, those that a round applies: the most score per element that the model gains."""

from collections.abc import Sequence
from dataclasses import dataclass

from lcml.circuits.collector import without_collector
from lcml.circuits.parts import GrownPart, Part, grow_part
from lcml.circuits.splits import Split, SplitCosts, apply_splits
from lcml.learning.scoring import Candidates


@dataclass(frozen=True)
class ChosenSplit:
    """A split that a round applies, its score, and how many elements it alone adds, counted once for every cell."""

    split: Split
    score: float
    added: int


@without_collector()
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


@without_collector()
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
    without an independent feature. So the number of splits is found by bisection.
    """

    def grown_by(number: int) -> list[GrownPart]:
        return apply_to_parts(parts, [choice.split for choice in chosen[:number]], depth)

    def fits(grown: Sequence[GrownPart]) -> bool:
        n_features = sum(part.part.n_features for part in grown)
        n_elements = sum(part.part.circuit.n_elements for part in grown)
        present = (max_features, n_features), (max_elements, n_elements)
        return all(limit is None or number <= limit for limit, number in present)

    least, most = 0, len(chosen)
    if fits(grown := grown_by(most)):
        return chosen, grown
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if fits(grown_by(middle)) else (least, middle)
    return chosen[:least], grown_by(least)
