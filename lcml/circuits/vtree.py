"""The vtree: a full binary tree whose leaves are the variables; it says how every or gate's scope divides.

Source: Pipatsrisawat & Darwiche, "New Compilation Languages Based on Structured Decomposability", AAAI 2008.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lcml.arrays import IntArray, frozen
from lcml.errors import CircuitError


@dataclass(frozen=True, eq=False)
class Vtree:
    """A full binary tree over variables 0..n_variables-1, as arrays over its nodes; -1 stands for "none".

    left, right: (n_nodes,) children of an inner node; variable: (n_nodes,) the variable of a leaf.
    Nodes may be numbered in any way: the ids of a file are kept. Raises CircuitError where the arrays are no such tree.
    """

    left: IntArray
    right: IntArray
    variable: IntArray

    def __post_init__(self) -> None:
        for name in ("left", "right", "variable"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        _validate(self)

    @property
    def n_nodes(self) -> int:
        return len(self.variable)

    @property
    def n_variables(self) -> int:
        return (self.n_nodes + 1) // 2

    @property
    def root(self) -> int:
        return int(np.flatnonzero(self.parent < 0)[0])

    @cached_property
    def parent(self) -> IntArray:
        """(n_nodes,) the parent of every node, -1 at the root."""
        parent = np.full(self.n_nodes, -1, dtype=np.int32)
        inner = np.flatnonzero(self.left >= 0)
        parent[self.left[inner]] = parent[self.right[inner]] = inner
        return frozen(parent)

    @cached_property
    def height(self) -> IntArray:
        """(n_nodes,) edges to the deepest leaf below: 0 at a leaf."""
        height = np.zeros(self.n_nodes, dtype=np.int32)
        for node in reversed(self.top_down):
            if self.left[node] >= 0:
                height[node] = 1 + max(height[self.left[node]], height[self.right[node]])
        return frozen(height)

    @cached_property
    def top_down(self) -> list[int]:
        """All nodes in depth-first order, parents before children, left before right."""
        order, stack = [], [self.root]
        while stack:
            node = stack.pop()
            order.append(node)
            if self.left[node] >= 0:
                stack += (int(self.right[node]), int(self.left[node]))
        return order

    @cached_property
    def leaf_of_variable(self) -> IntArray:
        """(n_variables,) the leaf of every variable."""
        leaves = np.flatnonzero(self.variable >= 0)
        leaf_of = np.empty(self.n_variables, dtype=np.int32)
        leaf_of[self.variable[leaves]] = leaves
        return frozen(leaf_of)

    @cached_property
    def leaf_order(self) -> IntArray:
        """(n_variables,) the variables from the leftmost leaf to the rightmost; a scope is a slice of it."""
        return frozen([self.variable[node] for node in self.top_down if self.variable[node] >= 0])

    @cached_property
    def scope_range(self) -> IntArray:
        """(n_nodes, 2): the variables below a node are `leaf_order[first:stop]`."""
        scope = np.zeros((self.n_nodes, 2), dtype=np.int32)
        position = np.empty(self.n_variables, dtype=np.int32)
        position[self.leaf_order] = np.arange(self.n_variables)
        for node in reversed(self.top_down):
            if self.left[node] < 0:
                first = position[self.variable[node]]
                scope[node] = first, first + 1
            else:
                scope[node] = scope[self.left[node], 0], scope[self.right[node], 1]
        return frozen(scope)

    def scope(self, node: int) -> IntArray:
        """The variables below `node`, from left to right."""
        first, stop = self.scope_range[node]
        return self.leaf_order[first:stop]

    def same_as(self, other: "Vtree") -> bool:
        """Whether both have the same nodes under the same numbers."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("left", "right", "variable"))


def balanced(n_variables: int) -> Vtree:
    """Halve the sequence of variables again and again; the left half has the odd one."""
    return _from_order(range(_at_least_one(n_variables)), lambda size: (size + 1) // 2)


def right_linear(n_variables: int) -> Vtree:
    """Every left child is a leaf, in the order of the variables."""
    return _from_order(range(_at_least_one(n_variables)), lambda size: 1)


def side_by_side(sizes: Sequence[int]) -> Vtree:
    """Right-linear trees over so many variables each, one after another, joined as `balanced` joins variables."""
    return over_blocks(balanced(len(sizes)), np.cumsum([0, *sizes]))


def random(n_variables: int, seed: int) -> Vtree:
    """A random order of the variables, cut at a uniformly random place at every inner node."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(_at_least_one(n_variables)).tolist()
    return _from_order(order, lambda size: int(generator.integers(1, size)))


def grid(height: int, width: int, offset: tuple[int, int] = (0, 0), n_channels: int = 1) -> Vtree:
    """Image vtree: neighbours are paired alternately along rows and along columns, from single pixels to the image.

    Variable c * height * width + y * width + x is the pixel in row y and column x of channel c. `offset` (rows,
    columns) shifts where pairing begins: with an offset of 1, pixel 0 stays alone at the first level and pixels 1 and 2
    pair up. Several channels have a tree each, the trees are paired in order, the pairs are paired, and so on.
    """
    if height < 1 or width < 1 or n_channels < 1:
        found = f"{height} x {width} and {n_channels} channels"
        raise CircuitError(f"vtree grid: expected a height, a width and channels of at least 1, found {found}")
    builder = _Builder()
    blocks = [_grid(builder, height, width, offset, channel * height * width) for channel in range(n_channels)]
    while len(blocks) > 1:
        pairs = zip(blocks[::2], blocks[1::2], strict=False)
        blocks = [builder.inner(*pair) for pair in pairs] + blocks[len(blocks) // 2 * 2 :]
    return builder.build()


def _grid(builder: "_Builder", height: int, width: int, offset: tuple[int, int], first: int) -> int:
    """The root of the tree over one channel, whose variables begin with `first`."""
    rows, columns = offset
    block_ids: dict[tuple[int, int], int] = {
        (y + rows % height, x + columns % width): builder.leaf(first + y * width + x)
        for y in range(height)
        for x in range(width)
    }
    axis = 1
    while len(block_ids) > 1:
        merged: dict[tuple[int, int], int] = {}
        for (y, x), node in block_ids.items():
            place = (y // 2, x) if axis == 0 else (y, x // 2)
            merged[place] = builder.inner(merged[place], node) if place in merged else node
        block_ids, axis = merged, 1 - axis
    return block_ids.popitem()[1]


def from_mutual_information(
    data: ArrayLike,
    labels: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    alpha: float = 1.0,
    blocks: ArrayLike | None = None,
) -> Vtree:
    """Pair up, level by level, the blocks of variables that tell most about each other.

    data (n_examples, n_variables) in [0, 1]: row i makes X_v true with probability data[i, v], independently. The
    mutual information of two variables comes from their expected joint counts, smoothed by `alpha`; with `labels`
    (n_examples,) it is that given the class, which also sees variables that only together tell the class (XOR).
    Examples count as often as `weights` (n_examples,) say. That of two blocks is the mean over their pairs. Greedy
    matching at every level, so the tree's height is ceil(log2 n).

    blocks (n_blocks + 1,): variables blocks[i] to blocks[i + 1] - 1 come from one column: they stay together, in their
    order, right-linear, and the information of two columns is that of the two variables that tell most.
    Source: the bottom-up method of Liang, Bekker & Van den Broeck, UAI 2017, section 4.1.
    """
    values = np.asarray(data, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise CircuitError(f"vtree: expected data of shape (examples, variables), found {values.shape}")
    codes = np.zeros(len(values)) if labels is None else np.asarray(labels)
    if codes.shape != (len(values),):
        raise CircuitError(f"vtree: expected {len(values)} labels, found an array of shape {codes.shape}")
    counts = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    information = np.zeros((values.shape[1], values.shape[1]))
    for code in np.unique(codes):
        part = codes == code
        share, of_part = counts[part].sum() / counts.sum(), None if weights is None else counts[part]
        information += share * _mutual_information(values[part], of_part, alpha)
    builder = _Builder()
    starts = np.arange(values.shape[1] + 1) if blocks is None else np.asarray(blocks)
    information = np.maximum.reduceat(np.maximum.reduceat(information, starts[:-1], axis=0), starts[:-1], axis=1)
    nodes = [builder.leaf(block) for block in range(len(information))]
    while len(nodes) > 1:
        pairs = _greedy_matching(information)
        alone = sorted(set(range(len(nodes))) - {index for pair in pairs for index in pair})
        nodes = [builder.inner(nodes[i], nodes[j]) for i, j in pairs] + [nodes[i] for i in alone]
        groups = np.zeros((len(nodes), len(information)))
        for row, members in enumerate([*pairs, *((i,) for i in alone)]):
            groups[row, list(members)] = 1 / len(members)
        information = groups @ information @ groups.T
    return over_blocks(builder.build(), starts)


def over_blocks(vtree: Vtree, blocks: ArrayLike) -> Vtree:
    """The vtree in which variable i stands for the variables blocks[i] to blocks[i + 1] - 1, right-linear.

    blocks: (vtree.n_variables + 1,) whole numbers from 0 on, each more than the one before.
    """
    starts = np.asarray(blocks).tolist()
    if starts[-1] == vtree.n_variables:
        return vtree
    builder, made = _Builder(), dict[int, int]()
    for node in reversed(vtree.top_down):
        left, right, block = int(vtree.left[node]), int(vtree.right[node]), int(vtree.variable[node])
        if left >= 0:
            made[node] = builder.inner(made[left], made[right])
            continue
        first, last = starts[block], starts[block + 1] - 1
        made[node] = builder.leaf(last)
        for variable in range(last - 1, first - 1, -1):
            made[node] = builder.inner(builder.leaf(variable), made[node])
    return builder.build()


class _Builder:
    """Collects nodes bottom-up: children get smaller numbers than their parent."""

    def __init__(self) -> None:
        self._nodes: list[tuple[int, int, int]] = []

    def leaf(self, variable: int) -> int:
        self._nodes.append((-1, -1, variable))
        return len(self._nodes) - 1

    def inner(self, left: int, right: int) -> int:
        self._nodes.append((left, right, -1))
        return len(self._nodes) - 1

    def build(self) -> Vtree:
        left, right, variable = np.array(self._nodes, dtype=np.int32).T
        return Vtree(left, right, variable)


def _from_order(order: Sequence[int], cut: Callable[[int], int]) -> Vtree:
    """The tree over `order` whose inner node over `size` variables has `cut(size)` of them on its left."""
    builder = _Builder()
    finished: list[int] = []
    stack: list[tuple[int, int] | None] = [(0, len(order))]  # None: join the last two finished subtrees
    while stack:
        span = stack.pop()
        if span is None:
            right, left = finished.pop(), finished.pop()
            finished.append(builder.inner(left, right))
        elif span[1] - span[0] == 1:
            finished.append(builder.leaf(order[span[0]]))
        else:
            middle = span[0] + cut(span[1] - span[0])
            stack += (None, (middle, span[1]), (span[0], middle))
    return builder.build()


def _mutual_information(
    values: NDArray[np.float64], weights: NDArray[np.float64] | None, alpha: float
) -> NDArray[np.float64]:
    """(n_variables, n_variables) pairwise mutual information in nats; the diagonal means nothing."""
    n_examples = len(values) if weights is None else weights.sum()
    weighted = values if weights is None else values * weights[:, None]
    true = weighted.sum(axis=0)
    both = weighted.T @ values
    counts = {(1, 1): both, (1, 0): true[:, None] - both, (0, 1): true[None, :] - both}
    counts[0, 0] = n_examples - true[:, None] - true[None, :] + both
    total = n_examples + 4 * alpha
    marginal = {1: (true + 2 * alpha) / total, 0: (n_examples - true + 2 * alpha) / total}
    information = np.zeros_like(both)
    for (first, second), count in counts.items():
        joint = np.maximum((count + alpha) / total, np.finfo(np.float64).tiny)
        information += joint * np.log(joint / (marginal[first][:, None] * marginal[second][None, :]))
    return information


def _greedy_matching(information: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Disjoint pairs of rows, the most informative first, as many as possible."""
    size = len(information)
    first, second = np.triu_indices(size, k=1)
    order = np.argsort(-information[first, second], kind="stable")
    free = np.ones(size, dtype=bool)
    pairs: list[tuple[int, int]] = []
    for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True):
        if free[i] and free[j]:
            free[i] = free[j] = False
            pairs.append((i, j))
            if 2 * len(pairs) >= size - 1:
                break
    return pairs


def _at_least_one(n_variables: int) -> int:
    if n_variables < 1:
        raise CircuitError(f"vtree: expected at least 1 variable, found {n_variables}")
    return n_variables


def _validate(vtree: Vtree) -> None:
    left, right, variable = vtree.left, vtree.right, vtree.variable
    n_nodes = len(variable)
    if not (left.shape == right.shape == variable.shape == (n_nodes,)) or n_nodes % 2 == 0:
        found = f"{left.shape}, {right.shape}, {variable.shape}"
        raise CircuitError(f"vtree: expected left, right and variable of one odd length, found {found}")
    inner = left >= 0
    if (wrong := np.flatnonzero((inner != (right >= 0)) | (inner != (variable < 0)))).size:
        raise CircuitError(f"vtree node {wrong[0]}: expected either two children or a variable")
    if not np.array_equal(np.sort(variable[~inner]), np.arange((n_nodes + 1) // 2)):
        raise CircuitError(f"vtree: expected every variable 0..{(n_nodes - 1) // 2} at exactly one leaf")
    children = np.concatenate([left[inner], right[inner]])
    if children.size and (children.max() >= n_nodes or np.bincount(children, minlength=n_nodes).max() > 1):
        raise CircuitError("vtree: a child is out of range or has two parents")
    if len(vtree.top_down) != n_nodes:
        raise CircuitError("vtree: some nodes cannot be reached from the root (a cycle)")
