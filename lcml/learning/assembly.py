"""The circuit of what was learned of a table: the literals of its columns' variables, and the trees beside them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lcml.arrays import FloatArray
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.trees import Tree, tree_part
from lcml.circuits.views import IdentityView
from lcml.inputs.columns import ColumnsEncoder
from lcml.learning.additive import AdditiveDesign, Theta
from lcml.learning.boosting import ColumnBins, GrownTree, Level
from lcml.learning.parameters import Parameters


def assembled(
    encoder: ColumnsEncoder,
    design: AdditiveDesign,
    cuts: Sequence[ColumnBins],
    theta: Theta,
    trees: Sequence[GrownTree],
) -> tuple[ColumnsEncoder, tuple[Part, ...], Parameters]:
    """The encoder with the steps that the trees ask for, the part of the additive literals and that of the trees, and
    the weights of their features: together what `theta` and the leaves add up to."""
    encoder, grown = with_steps(encoder, cuts, trees)
    additive, is_additive = design.of_variables(theta, encoder), encoder.is_additive
    circuit = initial_circuit(vtrees.side_by_side([c.n_outputs for c in encoder.columns if c.n_outputs]))
    weighted = np.zeros(circuit.n_literals + circuit.n_elements, bool)
    weighted[: len(is_additive)] = is_additive
    parts = [Part(IdentityView(len(is_additive)), circuit, weighted)]
    weights, bias = [additive.weights[is_additive].T], additive.bias
    if grown:
        part, kept = tree_part([tree for tree, _ in grown], len(is_additive))
        values = np.concatenate([values - values[-1] for _, values in grown])
        parts.append(part)
        weights.append(values[kept].T)
        bias = bias + sum(values[-1] for _, values in grown)
    return encoder, tuple(parts), Parameters(np.concatenate(weights, axis=1), bias)


def with_steps(
    encoder: ColumnsEncoder, cuts: Sequence[ColumnBins], trees: Sequence[GrownTree]
) -> tuple[ColumnsEncoder, list[tuple[Tree, FloatArray]]]:
    """The encoder with the steps that trees ask for, and the trees over its variables with the values
    (n_leaves, n_sets) of their leaves; equal trees are one, of which the values add up."""
    asked: list[set[tuple[float, bool]]] = [set() for _ in encoder.columns]

    def asks_gap(level: Level, context: int) -> bool:
        """Whether only a gap is above the cut: that of a number behind the last step, or of a category."""
        cut = cuts[level.column]
        return int(level.cut[context]) == (cut.gap if cut.is_category else len(cut.steps))

    def step(level: Level, context: int) -> tuple[float, bool]:
        gap_above = bool(level.gap_above[context]) and encoder.columns[level.column].gaps
        return float(cuts[level.column].steps[level.cut[context]]), gap_above

    for tree in trees:
        for level in tree.levels:
            if not cuts[level.column].is_category:
                contexts = np.flatnonzero(level.asks).tolist()
                asked[level.column] |= {step(level, context) for context in contexts if not asks_gap(level, context)}
    steps = [sorted(of_column) for of_column in asked]
    extended = ColumnsEncoder(
        tuple(
            replace(column, steps=np.array([at for at, _ in of]), gap_above=np.array([above for _, above in of], bool))
            for column, of in zip(encoder.columns, steps, strict=True)
        )
    )

    def question(level: Level, context: int) -> tuple[int, bool]:
        """The variable, and whether it is true where the answer is yes."""
        column, first = extended.columns[level.column], int(extended.blocks[level.column])
        if asks_gap(level, context):
            return first, True
        if not cuts[level.column].is_category:
            return first + column.gaps + column.n_values + steps[level.column].index(step(level, context)), True
        cut = int(level.cut[context])
        if column.spared:
            return first, cut == 1
        return first + column.gaps + cut, True

    def built(tree: GrownTree, depth: int, context: int, values: list[FloatArray]) -> Tree | int:
        if depth == len(tree.levels):
            values.append(tree.values[context])
            return len(values) - 1
        level = tree.levels[depth]
        if not level.asks[context]:
            return built(tree, depth + 1, 2 * context, values)
        variable, straight = question(level, context)
        yes = built(tree, depth + 1, 2 * context + straight, values)
        return Tree(variable, yes, built(tree, depth + 1, 2 * context + (not straight), values))

    merged: dict[Tree, FloatArray] = {}
    for grown in trees:
        values: list[FloatArray] = []
        root = built(grown, 0, 0, values)
        if isinstance(root, Tree):
            merged[root] = merged.get(root, 0.0) + np.array(values)
    return extended, list(merged.items())
