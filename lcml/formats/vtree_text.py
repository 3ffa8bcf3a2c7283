"""The SDD package's text format of vtrees, `.vtree`; see docs/file-formats.md.

vtree N              number of nodes
L ID VARIABLE        a leaf; variables count from 1
I ID LEFT RIGHT      an inner node, after its children
"""

from pathlib import Path

from lcml.circuits.vtree import Vtree
from lcml.files import write_atomically
from lcml.formats.lines import TextFile, excerpt

_HEADER = """\
c A vtree: node ids count from 0, variables from 1, children stand before their parents.
c vtree NODES
c L ID VARIABLE
c I ID LEFT RIGHT
"""


def read_vtree(path: str | Path) -> Vtree:
    """The vtree in a file, its node ids kept; variable v of the file becomes v - 1.

    Raises FormatError, with the line, for a file that cannot be read or is no such tree.
    """
    text = TextFile(path)
    lines = text.lines()
    n_nodes = _read_count(text, next(lines, b""))
    n_variables = (n_nodes + 1) // 2
    nodes: dict[int, tuple[int, int, int]] = {}
    free: set[int] = set()
    variables: set[int] = set()
    for line in lines:
        kind, *tokens = line.split()
        if kind == b"L":
            node, variable = text.integers(tokens, "node id, variable")
            if not 1 <= variable <= n_variables or variable in variables:
                text.fail(f"expected each variable from 1 to {n_variables} once, found {variable}")
            variables.add(variable)
            entry = (-1, -1, variable - 1)
        elif kind == b"I":
            node, left, right = text.integers(tokens, "node id, left child, right child")
            for child in (left, right):
                if child not in free:
                    why = "has a parent already" if child in nodes else "is not defined above this line"
                    text.fail(f"child {child} of node {node} {why}; children stand before their one parent")
                free.remove(child)
            entry = (left, right, -1)
        else:
            text.fail(f"expected a line 'L ...' or 'I ...', found {excerpt(line)}")
        if node >= n_nodes or node in nodes:
            text.fail(f"expected each node id from 0 to {n_nodes - 1} once, found {node}")
        nodes[node] = entry
        free.add(node)
    if len(nodes) != n_nodes:
        text.fail(f"expected {n_nodes} nodes, found {len(nodes)}: the file is truncated or its count is wrong")
    # So many nodes, each of n variables once and every child with one parent: there is exactly one root.
    left_of, right_of, variable_of = zip(*(nodes[node] for node in range(n_nodes)), strict=True)
    return Vtree(left_of, right_of, variable_of)  # type: ignore[arg-type]


def write_vtree(vtree: Vtree, path: str | Path) -> None:
    """Write `vtree` in the text format, its node ids kept. Raises OutputError where the file cannot be written."""
    lines = [f"vtree {vtree.n_nodes}"]
    for node in sorted(range(vtree.n_nodes), key=lambda node: (vtree.height[node], node)):
        if vtree.left[node] < 0:
            lines.append(f"L {node} {vtree.variable[node] + 1}")
        else:
            lines.append(f"I {node} {vtree.left[node]} {vtree.right[node]}")
    write_atomically(path, _HEADER + "\n".join(lines) + "\n")


def _read_count(text: TextFile, line: bytes) -> int:
    kind, *tokens = line.split() or [b""]
    if kind != b"vtree":
        text.fail(f"expected a line 'vtree NODES', found {excerpt(line)}")
    (n_nodes,) = text.integers(tokens, "number of nodes")
    if n_nodes % 2 == 0:
        text.fail(f"expected an odd number of nodes (n leaves and n - 1 inner nodes), found {n_nodes}")
    return n_nodes
