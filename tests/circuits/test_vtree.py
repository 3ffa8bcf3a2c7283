"""Vtrees: every kind is a full binary tree of its variables; the kinds pair what they promise to pair."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcml.circuits import vtree as vtrees
from lcml.circuits.vtree import Vtree
from lcml.errors import CircuitError

from ..worlds import random_vtrees


def leaves_by_recursion(vtree: Vtree, node: int) -> list[int]:
    if vtree.left[node] < 0:
        return [int(vtree.variable[node])]
    return leaves_by_recursion(vtree, vtree.left[node]) + leaves_by_recursion(vtree, vtree.right[node])


def height_by_recursion(vtree: Vtree, node: int) -> int:
    if vtree.left[node] < 0:
        return 0
    return 1 + max(height_by_recursion(vtree, child) for child in (vtree.left[node], vtree.right[node]))


@given(random_vtrees(most=12))
def test_scopes_and_heights_match_recursion(vtree: Vtree) -> None:
    assert sorted(leaves_by_recursion(vtree, vtree.root)) == list(range(vtree.n_variables))
    for node in range(vtree.n_nodes):
        assert vtree.scope(node).tolist() == leaves_by_recursion(vtree, node)
        assert vtree.height[node] == height_by_recursion(vtree, node)


def test_balanced_halves_and_right_linear_peels() -> None:
    balanced = vtrees.balanced(5)
    assert balanced.scope(balanced.left[balanced.root]).tolist() == [0, 1, 2]
    linear = vtrees.right_linear(4)
    assert linear.scope(linear.left[linear.root]).tolist() == [0]
    assert linear.height[linear.root] == 3


def test_random_is_seeded() -> None:
    assert vtrees.random(9, 3).same_as(vtrees.random(9, 3))
    assert not vtrees.random(9, 3).same_as(vtrees.random(9, 4))


def test_grid_pairs_columns_then_rows() -> None:
    # 2 x 4 pixels 0 1 2 3 / 4 5 6 7: pairs along the row first, then blocks of 2 x 2
    vtree = vtrees.grid(2, 4)
    halves = [set(vtree.scope(child).tolist()) for child in (vtree.left[vtree.root], vtree.right[vtree.root])]
    assert halves == [{0, 1, 4, 5}, {2, 3, 6, 7}]
    quarter = vtree.left[vtree.left[vtree.root]]
    assert vtree.scope(quarter).tolist() == [0, 1]


def test_grid_offset_shifts_the_pairs() -> None:
    vtree = vtrees.grid(1, 4, (0, 1))
    pairs = {tuple(vtree.scope(node).tolist()) for node in range(vtree.n_nodes) if vtree.height[node] == 1}
    assert pairs == {(1, 2)}


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 9), st.integers(0, 9))
def test_grid_of_any_size_and_offset(height: int, width: int, rows: int, columns: int) -> None:
    assert vtrees.grid(height, width, (rows, columns)).n_variables == height * width


def test_mutual_information_pairs_copies() -> None:
    # X2 copies X0 and X3 is the opposite of X1: those pairs share ln 2 nats, all others none
    first = np.tile([0, 0, 1, 1], 50)
    second = np.tile([0, 1, 0, 1], 50)
    vtree = vtrees.from_mutual_information(np.stack([first, second, first, 1 - second], axis=1))
    pairs = {frozenset(vtree.scope(node).tolist()) for node in range(vtree.n_nodes) if vtree.height[node] == 1}
    assert pairs == {frozenset({0, 2}), frozenset({1, 3})}


def test_information_given_the_class_pairs_an_xor() -> None:
    # Y = X0 xor X3: no two inputs tell of each other, but given Y each of X0 and X3 tells the other
    data = np.random.default_rng(0).integers(0, 2, (400, 6))
    vtree = vtrees.from_mutual_information(data, data[:, 0] ^ data[:, 3])
    assert (0, 3) in {tuple(sorted(vtree.scope(node))) for node in range(vtree.n_nodes) if vtree.height[node] == 1}


def test_information_counts_an_example_as_often_as_its_weight_says() -> None:
    # worlds of equal weight tell nothing of each other; with weights of 9 where X0 = X2 and X1 = X3 these are pairs
    worlds = np.array(list(product([0, 1], repeat=4)))
    alike = (worlds[:, 0] == worlds[:, 2]) & (worlds[:, 1] == worlds[:, 3])
    weights, labels = np.where(alike, 9, 1), worlds[:, 0]
    weighted = vtrees.from_mutual_information(worlds, weights=weights)
    pairs = {frozenset(weighted.scope(node).tolist()) for node in range(7) if weighted.height[node] == 1}
    assert pairs == {frozenset({0, 2}), frozenset({1, 3})}
    often = np.repeat(np.arange(16), weights)
    assert weighted.same_as(vtrees.from_mutual_information(worlds[often]))
    given_class = vtrees.from_mutual_information(worlds, labels, weights)
    assert given_class.same_as(vtrees.from_mutual_information(worlds[often], labels[often]))


@pytest.mark.parametrize("columns", [1, 2, 3, 7])
def test_mutual_information_of_any_width(columns: int) -> None:
    vtree = vtrees.from_mutual_information(np.random.default_rng(0).random((20, columns)))
    assert vtree.n_variables == columns


@pytest.mark.parametrize(
    ("left", "right", "variable", "message"),
    [
        ([-1, -1], [-1, -1], [0, 1], "odd length"),
        ([-1, -1, 0], [-1, -1, -1], [0, 1, -1], "two children or a variable"),
        ([-1, -1, 0], [-1, -1, 1], [0, 0, -1], "exactly one leaf"),
        ([-1, -1, 0], [-1, -1, 0], [0, 1, -1], "two parents"),
        ([-1, -1, 5], [-1, -1, 0], [0, 1, -1], "out of range"),
        ([-1, -1, -1, 0, 4], [-1, -1, -1, 1, 2], [0, 1, 2, -1, -1], "cannot be reached"),
    ],
)
def test_refuses_what_is_no_tree(left: list[int], right: list[int], variable: list[int], message: str) -> None:
    with pytest.raises(CircuitError, match=message):
        Vtree(np.array(left), np.array(right), np.array(variable))


@pytest.mark.parametrize("build", [lambda: vtrees.balanced(0), lambda: vtrees.grid(0, 3)])
def test_refuses_no_variables(build: object) -> None:
    with pytest.raises(CircuitError, match="at least 1"):
        build()  # type: ignore[operator]
