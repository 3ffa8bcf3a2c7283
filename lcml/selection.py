"""Choose, among scored splits, those that a round applies: the most score per element that the circuit gains."""

from dataclasses import dataclass

import numpy as np

from lcml.circuit import Circuit
from lcml.scoring import Candidates
from lcml.splits import Split, SplitCosts, SplitResult, apply_splits


@dataclass(frozen=True)
class ChosenSplit:
    """A split that a round applies, its score, and how many elements it alone adds."""

    split: Split
    score: float
    added: int


def choose_splits(circuit: Circuit, candidates: Candidates, max_added: int, depth: int = 0) -> list[ChosenSplit]:
    """The best candidates by score per added element, until they add `max_added` elements together.

    Of candidates that would give the same new feature (equal flow, same variable) only the best stands.
    """
    costs = SplitCosts(circuit, depth)
    scored = [
        ChosenSplit(split, score, costs.added(split))
        for split, score in (
            (Split(element, variable), score)
            for element, variable, score in zip(
                candidates.element.tolist(), candidates.variable.tolist(), candidates.score.tolist(), strict=True
            )
        )
    ]
    scored.sort(key=lambda choice: (-choice.score / max(choice.added, 1), choice.split.element))
    flow_class = circuit.flow_class.tolist()
    chosen: list[ChosenSplit] = []
    seen: set[tuple[int, int]] = set()
    elements: set[int] = set()
    total = 0
    for choice in scored:
        feature = (flow_class[choice.split.element], choice.split.variable)
        if feature in seen or choice.split.element in elements:
            continue
        if total + choice.added > max_added:
            continue
        seen.add(feature)
        elements.add(choice.split.element)
        chosen.append(choice)
        total += choice.added
    return chosen


def apply_within(
    circuit: Circuit, chosen: list[ChosenSplit], max_elements: int | None, depth: int = 0
) -> tuple[list[ChosenSplit], SplitResult]:
    """Apply the chosen splits, or as many of the first of them as keep the circuit within `max_elements`.

    Splits made together can cost more than each alone: a copy may be split too.
    """
    while True:
        result = apply_splits(circuit, [choice.split for choice in chosen], depth)
        excess = 0 if max_elements is None else result.circuit.n_elements - max_elements
        if excess <= 0 or not chosen:
            return chosen, result
        cumulative = np.cumsum([max(choice.added, 1) for choice in chosen])
        keep = int(np.searchsorted(cumulative, cumulative[-1] - excess, side="right"))
        chosen = chosen[: min(keep, len(chosen) - 1)]
