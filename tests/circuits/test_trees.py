"""Trees as one circuit: every leaf flows as the product of the answers on its way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml.backend import get_backend
from lcml.circuits.circuit import Circuit
from lcml.circuits.trees import Tree, tree_part
from lcml.circuits.views import SelectedView, view_from_dict
from lcml.errors import CircuitError, SettingsError
from lcml.passes.feature_map import FeatureMap

N_INPUTS = 5


def numbered(tree: object, count: list[int]) -> Tree | int:
    """A tree of (test, true, false), whose leaves are counted in the order of the walk."""
    if not isinstance(tree, tuple):
        count[0] += 1
        return count[0] - 1
    test, true, false = tree
    return Tree(test, numbered(true, count), numbered(false, count))


shapes = st.recursive(
    st.none(), lambda below: st.tuples(st.integers(0, N_INPUTS - 1), below, below), max_leaves=9
).filter(lambda tree: tree is not None)


def products(tree: Tree | int, q: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Per leaf, in the order of the walk, the product of q or 1 - q of what is asked on its way."""
    if not isinstance(tree, Tree):
        return [np.ones(len(q))]
    ways = (tree.true, q[:, tree.test]), (tree.false, 1 - q[:, tree.test])
    return [share * leaf for below, share in ways for leaf in products(below, q)]


@settings(deadline=None)
@given(st.lists(shapes, min_size=1, max_size=4), st.sampled_from(["numpy", "numba"]))
def test_a_leaf_flows_as_the_product_of_the_answers_on_its_way(shapes: list[object], backend: str) -> None:
    trees = [tree for tree in (numbered(shape, [0]) for shape in shapes) if isinstance(tree, Tree)]
    part, leaf = tree_part(trees, N_INPUTS)
    circuit = part.circuit
    Circuit(circuit.vtree, circuit.or_vtree, circuit.or_start, circuit.elem_prime, circuit.elem_sub)  # checks itself
    assert circuit.is_tautology
    assert circuit.is_product
    q = np.random.default_rng(0).random((7, N_INPUTS))
    computed = FeatureMap(part.view, circuit, part.flows, get_backend(backend)).values(q)  # type: ignore[arg-type]
    expected = [leaf for tree in trees for leaf in products(tree, q)]
    np.testing.assert_allclose(computed, np.array(expected)[leaf], atol=1e-14)
    n_leaves = [len(tree.leaves()) for tree in trees]
    assert part.n_features == sum(n_leaves) - len(trees)
    assert set(range(sum(n_leaves))) - set(leaf.tolist()) == {stop - 1 for stop in np.cumsum(n_leaves)}


def test_a_tree_of_two_questions() -> None:
    """X1, else X0: the leaves q1, (1 - q1) q0 and, without a weight, (1 - q1)(1 - q0)."""
    part, leaf = tree_part([Tree(1, 0, Tree(0, 1, 2))], 2)
    assert part.view == SelectedView(2, (1, 0, 2))
    features = FeatureMap(part.view, part.circuit, part.flows, get_backend("numpy")).values(np.array([[0.25, 0.5]]))
    assert dict(zip(leaf.tolist(), features[:, 0].tolist(), strict=True)) == {0: 0.5, 1: 0.125}


def test_a_view_of_chosen_inputs() -> None:
    view = SelectedView(3, (2, 2, 3))
    assert view_from_dict(view.as_dict()) == view
    assert view.in_words() == "1 of 3 variables"
    with pytest.raises(SettingsError, match="numbers of at most 3, found 4"):
        SelectedView(3, (4,))
    with pytest.raises(CircuitError, match="needs one at least"):
        tree_part([], 3)
