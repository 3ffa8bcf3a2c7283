"""How large the circuits are, level by level, and what a piece of one looks like."""

import numpy as np

from lcml.circuits.circuit import Circuit
from lcml.explain.conditions import feature_cases
from lcml.explain.names import part_words
from lcml.explain.report.drawing import Drawing, Line, Rect, Text, fitting
from lcml.explain.report.html import figure, heading, said, section, table
from lcml.explain.report.measured import Measured

_MOST_PARTS, _MOST_LEVELS = 12, 24
_MOST_NODES = 20
_ROW, _WIDTH = 74.0, 120.0


def structure_section(found: Measured) -> tuple[str, str, str]:
    """Sizes of all parts, levels of the largest, and the piece under one of its gates."""
    model = found.model
    facts = [
        ("parameters", model.n_parameters),
        ("elements", model.n_elements),
        ("or gates", model.n_or_gates),
        ("variables of the encoder", model.encoder.n_outputs),
        ("encoder", ", ".join((model.encoder.kind, *model.encoder.channels))),
        ("link", model.link),
    ]
    lines = [
        (i, p.view.in_words(), p.circuit.n_variables, p.circuit.n_elements, p.circuit.n_or_gates, n)
        for i, (p, n) in enumerate(zip(model.parts, model.n_carried, strict=True))
    ]
    head = ("part", "reads", "variables", "elements", "or gates", "features")
    content = [table((), facts), heading("Parts"), table(head, lines[:_MOST_PARTS])]
    if len(lines) > _MOST_PARTS:
        content.append(said(f"{len(lines) - _MOST_PARTS} more parts."))
    largest = max(range(len(lines)), key=lambda i: lines[i][3], default=None)
    if largest is not None and model.parts[largest].circuit.n_or_gates:
        circuit = model.parts[largest].circuit
        levels = [tuple(level.values()) for level in circuit_levels(circuit)]
        names = ("height", "vtree nodes", "most variables", "or gates", "elements")
        more = f", the first {_MOST_LEVELS} of {len(levels)} from the root down" if len(levels) > _MOST_LEVELS else ""
        content += [heading(f"Levels of part {largest}{more}"), table(names, levels[:_MOST_LEVELS])]
        content += [heading(f"A piece of part {largest}"), _piece(found, largest)]
    return section("structure", "What it is made of", *content)


def circuit_levels(circuit: Circuit) -> list[dict[str, int]]:
    """The levels from the root down: all vtree nodes of one height, and what of the circuit stands at them."""
    vtree = circuit.vtree
    scope_size = np.diff(vtree.scope_range, axis=1)[:, 0]
    element_height = circuit.or_height[circuit.elem_or]
    return [
        {
            "height": height,
            "vtree_nodes": int((vtree.height == height).sum()),
            "most_variables": int(scope_size[vtree.height == height].max()),
            "or_gates": int((circuit.or_height == height).sum()),
            "elements": int((element_height == height).sum()),
        }
        for height in range(int(vtree.height.max()), 0, -1)
    ]


def _piece(found: Measured, part: int) -> str:
    """The largest sub-circuit that can be drawn: or gates over their elements (and) over primes and subs."""
    circuit = found.model.parts[part].circuit
    below: list[frozenset[int]] = []
    for gate in range(circuit.n_or_gates):
        own = {circuit.n_literals + gate}
        for pair in circuit.elements_of(gate):
            for node in pair:
                own |= below[node - circuit.n_literals] if node >= circuit.n_literals else {node}
        below.append(frozenset(own) if len(own) <= _MOST_NODES else frozenset(range(-1, _MOST_NODES)))
    sizes = [len(nodes) if -1 not in nodes else 0 for nodes in below]
    root = int(np.argmax(sizes))
    if not sizes[root]:
        return said("Every gate has more below it than a picture can show.")
    words = part_words(found.model, part, found.names)
    cases = feature_cases(circuit)
    nodes = sorted(below[root], reverse=True)
    depth = {circuit.n_literals + root: 0}
    for node in nodes:
        for pair in circuit.elements_of(node - circuit.n_literals) if node >= circuit.n_literals else ():
            for child in pair:
                depth[child] = max(depth.get(child, 0), depth[node] + 1)
    rows: dict[int, list[int]] = {}
    for node in nodes:
        rows.setdefault(depth[node], []).append(node)
    width = max(len(row) for row in rows.values()) * _WIDTH + 20
    place = {
        node: ((i + 0.5) * width / len(row), 24 + level * _ROW)
        for level, row in rows.items()
        for i, node in enumerate(row)
    }
    n_gates = sum(node >= circuit.n_literals for node in nodes)
    first = cases.of_feature[int(circuit.n_literals + circuit.or_start[root])]
    holds = " and ".join(words(cases.measures(first).common))
    label = f"Sub-circuit of {n_gates} or gates over {len(nodes) - n_gates} literals; its first element holds where "
    drawing = Drawing(width, 48 + max(rows) * _ROW, label + (holds or "always"))
    for node in nodes:
        x, y = place[node]
        if node < circuit.n_literals:
            text = (words([node]) or ["-"])[0]
            drawing.add(Text(x, y + 4, fitting(text, _WIDTH - 6), "middle", title=text))
            continue
        pairs = list(circuit.elements_of(node - circuit.n_literals))
        for i, pair in enumerate(pairs):
            across, down = x + (i - (len(pairs) - 1) / 2) * 32, y + 28
            drawing.add(Line([(x, y + 9), (across, down - 8)], "muted"))
            for child in pair:
                drawing.add(Line([(across, down + 4), (place[child][0], place[child][1] - 9)], "muted", 0.7))
            drawing.add(Rect(across - 13, down - 8, 26, 14, "paper", "rule"), Text(across, down + 3, "and", "middle"))
        drawing.add(Rect(x - 10, y - 10, 20, 19, "paper", "plus"), Text(x, y + 4, "or", "middle", "plus"))
    return figure(drawing, "Or gates, their elements (and), and literals; equal sub-circuits are one.")
