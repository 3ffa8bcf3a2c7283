"""Conditions against brute force over all worlds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.splits import Split, apply_splits
from lcml.circuits.vtree import balanced
from lcml.explain.conditions import conditions, feature_cases, in_words
from tests.worlds import all_worlds, brute_flows, random_circuits, truth

NAMES = "abcdefghi"


def constrained() -> Circuit:
    """(a xor b) and (c xor d), or (a xnor b) and (c xnor d): no gate is a product, and Pr(root) is not always 1."""
    literal = {"a": 0, "b": 1, "c": 2, "d": 3, "A": 4, "B": 5, "C": 6, "D": 7}
    pairs = ["aB", "Ab", "ab", "AB", "cD", "Cd", "cd", "CD"]
    elements = [(literal[pair[0]], literal[pair[1]]) for pair in pairs] + [(8, 10), (9, 11)]
    vtree = balanced(4)
    left, right, root = vtree.left[vtree.root], vtree.right[vtree.root], vtree.root
    prime, sub = np.array(elements, dtype=np.int32).T
    return Circuit(vtree, _int32(left, left, right, right, root), _int32(*range(0, 11, 2)), prime, sub)


def _int32(*values: int) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def holds(text: str, world: list[bool]) -> bool:
    """The condition read as Python: its words mean there what they mean here."""
    values = dict(zip(NAMES, world, strict=False)) | {"always": True, "never": False}
    return bool(eval(text, {"__builtins__": {}}, values))


def assert_conditions(circuit: Circuit) -> None:
    """In every world that the circuit admits, exactly the elements flow whose condition holds."""
    texts = conditions(circuit, NAMES)[circuit.n_literals :]
    admitted = truth(circuit)[-1]
    for world, admits in zip(all_worlds(circuit.n_variables), admitted, strict=True):
        if admits:
            found = [holds(text, (world == 1).tolist()) for text in texts]
            assert found == (brute_flows(circuit, world) == 1).tolist(), (world, texts)


@given(circuit=random_circuits(most=5))
@settings(max_examples=60, deadline=None)
def test_a_condition_holds_where_its_element_flows(circuit: Circuit) -> None:
    if circuit.n_or_gates:
        assert_conditions(circuit)


def test_conditions_of_gates_that_are_no_products() -> None:
    circuit = constrained()
    assert not circuit.is_product
    texts = conditions(circuit, NAMES)
    assert texts[:5] == ("a", "b", "c", "d", "not a")
    for world, admits in zip(all_worlds(4), truth(circuit)[-1], strict=True):
        if admits:
            flows = [holds(text, (world == 1).tolist()) for text in texts[8:]]
            true = truth(circuit)[:, int("".join(str(int(bit)) for bit in world), 2)]
            expected = [bool(true[p] and true[s]) for p, s in zip(circuit.elem_prime, circuit.elem_sub, strict=True)]
            assert flows == expected


@given(circuit=random_circuits(most=5), most=st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_gates_with_too_many_cases_are_named(circuit: Circuit, most: int) -> None:
    """What "or gate g is reached" means is that one of its elements flows."""
    if not circuit.n_or_gates:
        return
    first = circuit.n_literals + circuit.n_or_gates
    cases = feature_cases(circuit, most)[circuit.n_literals :]
    for world in all_worlds(circuit.n_variables):
        flow = brute_flows(circuit, world)
        true = set(np.flatnonzero(np.concatenate([world, 1 - world])).tolist())
        true |= {first + gate for gate in range(circuit.n_or_gates) if flow[circuit.elem_or == gate].sum() == 1}
        assert [any(case <= true for case in one) for one in cases] == (flow == 1).tolist()


def test_named_gates_of_no_products_read_as_such() -> None:
    circuit = constrained()
    texts = [in_words(circuit, cases, NAMES) for cases in feature_cases(circuit, 1)]
    assert texts[-2:] == ["or gate 0 holds and or gate 2 holds", "or gate 1 holds and or gate 3 holds"]
    assert texts[8] == "a and not b and or gate 0 holds and or gate 2 holds"


def test_the_first_conditions_by_hand() -> None:
    circuit = initial_circuit(balanced(2))
    assert conditions(circuit, ("left", "right")) == (
        *("left", "right", "not left", "not right"),
        *("left and right", "left and not right", "not left and right", "not left and not right"),
    )
    circuit = initial_circuit(balanced(4))
    assert conditions(circuit, NAMES)[-1] == "always"


def test_a_shared_gate_reads_as_alternatives() -> None:
    """Split the root on a, the half with a on b, that with a and b on c: the others share the gate over (c, d)."""
    circuit = initial_circuit(balanced(4))
    for variable in (0, 1, 2):
        first_of_root = int(circuit.or_start[-2])
        circuit = apply_splits(circuit, [Split(first_of_root, variable)]).circuit
    texts = conditions(circuit, NAMES)[circuit.n_literals :]
    assert texts[-4:] == ("a and b and c", "a and b and not c", "a and not b", "not a")
    shared = circuit.elem_sub[-1] - circuit.n_literals
    first, stop = circuit.or_start[shared : shared + 2]
    signs = ("c and d", "c and not d", "not c and d", "not c and not d")
    assert texts[first:stop] == tuple(f"{sign} and (not a or not b)" for sign in signs)
    assert_conditions(circuit)


def test_alternatives_lose_what_another_covers() -> None:
    circuit = initial_circuit(balanced(4))
    cases = frozenset({frozenset({2, 0}), frozenset({2, 4, 1}), frozenset({2, 4, 5, 3})})
    assert in_words(circuit, cases, NAMES) == "c and (a or b or d)"
    assert in_words(circuit, frozenset(), NAMES) == "never"
