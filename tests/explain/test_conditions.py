"""Conditions against brute force over all worlds."""

import re
from itertools import islice

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.splits import Split, apply_splits
from lcml.circuits.vtree import balanced
from lcml.explain.conditions import CircuitCases, conditions, feature_cases
from lcml.inputs.encoding import one_by_one
from tests.worlds import all_worlds, brute_flows, random_circuits, truth

NAMES = "abcdefghi"
ALL = 10**6


def told(circuit: Circuit, shown: int = ALL, max_cases: int = 16) -> list[str]:
    """All features of the circuit in words, at most `shown` cases of each."""
    cases = feature_cases(circuit, max_cases)
    words = one_by_one(NAMES[: circuit.n_variables])
    return [cases.in_words(one, words, shown) for one in cases.of_feature]


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


def assert_conditions(circuit: Circuit, max_cases: int = 16) -> None:
    """In every world that the circuit admits, exactly the elements flow whose condition holds."""
    texts = told(circuit, max_cases=max_cases)[circuit.n_literals :]
    admitted = truth(circuit)[-1]
    for world, admits in zip(all_worlds(circuit.n_variables), admitted, strict=True):
        if admits:
            found = [holds(text, (world == 1).tolist()) for text in texts]
            assert found == (brute_flows(circuit, world) == 1).tolist(), (world, texts)


@given(circuit=random_circuits(most=5), most=st.sampled_from([1, 2, 16]))
@settings(max_examples=60, deadline=None)
def test_a_condition_holds_where_its_element_flows(circuit: Circuit, most: int) -> None:
    """Also where nearly every gate stands for its cases."""
    if circuit.n_or_gates:
        assert_conditions(circuit, most)


@given(circuit=random_circuits(most=5), most=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_cases_are_counted_as_they_are_spelt(circuit: Circuit, most: int) -> None:
    """No world is in two cases of a feature, and their number, what they share and the longest are as counted."""
    found = feature_cases(circuit, most)
    for cases in found.of_feature:
        spelt = list(found.spelt(cases))
        n_cases, common, longest = found.measures(cases)
        assert (n_cases, longest) == (len(spelt), max(map(len, spelt)))
        assert common == frozenset.intersection(*spelt)
        n = circuit.n_variables
        assert all(any((one + n) % (2 * n) in b for one in a) for i, a in enumerate(spelt) for b in spelt[:i])


def test_conditions_of_gates_that_are_no_products() -> None:
    circuit = constrained()
    assert not circuit.is_product
    texts = told(circuit)
    assert texts[:5] == ["a", "b", "c", "d", "not a"]
    for world, admits in zip(all_worlds(4), truth(circuit)[-1], strict=True):
        if admits:
            flows = [holds(text, (world == 1).tolist()) for text in texts[8:]]
            true = truth(circuit)[:, int("".join(str(int(bit)) for bit in world), 2)]
            expected = [bool(true[p] and true[s]) for p, s in zip(circuit.elem_prime, circuit.elem_sub, strict=True)]
            assert flows == expected


def parity(n: int) -> Circuit:
    """An odd number of n = 2^k variables is true: of two halves one is odd and one even. The root has both ways."""
    vtree = balanced(n)
    gates: dict[tuple[int, bool], int] = {}
    order = [node for node in np.argsort(vtree.height, kind="stable").tolist() if vtree.left[node] >= 0]
    wanted = [(node, odd) for node in order for odd in (False, True) if odd or node != order[-1]]

    def node_of(node: int, odd: bool) -> int:
        if vtree.left[node] < 0:
            return int(vtree.variable[node]) + (0 if odd else n)
        return 2 * n + gates[node, odd]

    pairs = []
    for node, odd in wanted:
        left, right = int(vtree.left[node]), int(vtree.right[node])
        pairs += [(node_of(left, first), node_of(right, first != odd)) for first in (True, False)]
        gates[node, odd] = len(gates)
    prime, sub = np.array(pairs, dtype=np.int32).T
    starts = np.arange(0, len(pairs) + 1, 2, dtype=np.int32)
    return Circuit(vtree, _int32(*(node for node, _ in wanted)), starts, prime, sub)


def test_many_cases_are_told_by_the_first_and_how_many_more() -> None:
    """Of 8 variables 4 are below either half: 8 of their 16 worlds are odd, 8 even. The root's first element is reached
    always, and holds where the left half is odd (8 worlds) and the right even (8): 64 cases of 8 literals."""
    circuit = parity(8)
    text = told(circuit, shown=3)[circuit.n_literals + circuit.n_elements - 2]
    found = re.fullmatch(r"(.*), or (.*), or (.*), and 61 more cases", text)
    assert found
    for case in found.groups():
        literals = case.split(" and ")
        assert [literal.removeprefix("not ") for literal in literals] == list("abcdefgh")
        signs = [not literal.startswith("not ") for literal in literals]
        assert sum(signs[:4]) % 2 == 1
        assert sum(signs[4:]) % 2 == 0
    assert len(set(found.groups())) == 3


def test_what_cases_share_is_told_once() -> None:
    """The pair x and y is even, so the 6 other variables are odd in half of their 64 worlds."""
    circuit = parity(8)
    texts = told(circuit, shown=2)
    assert re.fullmatch(r"\w and \w and \(.*, or .*, and 30 more cases\)", texts[circuit.n_literals])


def test_a_huge_number_of_cases_costs_little() -> None:
    """Half of all 2^64 worlds of 64 variables are odd, each a case of its own: 2^31 * 2^31 for the root's element."""
    circuit = parity(64)
    found = feature_cases(circuit)
    last = found.of_feature[-1]
    assert found.measures(last) == (2**62, frozenset(), 64)
    assert len(set(islice(found.spelt(last), 50))) == 50
    names = [f"x{v}" for v in range(64)]
    assert found.in_words(last, one_by_one(names)).endswith(", and over 1,000,000 more cases")
    assert "gate" not in " ".join(conditions(circuit, one_by_one(names)))


def test_the_first_conditions_by_hand() -> None:
    circuit = initial_circuit(balanced(2))
    assert conditions(circuit, one_by_one(("left", "right"))) == (
        *("left", "right", "not left", "not right"),
        *("left and right", "left and not right", "not left and right", "not left and not right"),
    )
    circuit = initial_circuit(balanced(4))
    assert conditions(circuit, one_by_one(NAMES[:4]))[-1] == "always"


def test_a_shared_gate_reads_as_alternatives() -> None:
    """Split the root on a, the half with a on b, that with a and b on c: the others share the gate over (c, d)."""
    circuit = initial_circuit(balanced(4))
    for variable in (0, 1, 2):
        first_of_root = int(circuit.or_start[-2])
        circuit = apply_splits(circuit, [Split(first_of_root, variable)]).circuit
    texts = conditions(circuit, one_by_one(NAMES[:4]))[circuit.n_literals :]
    assert texts[-4:] == ("a and b and c", "a and b and not c", "a and not b", "not a")
    shared = circuit.elem_sub[-1] - circuit.n_literals
    first, stop = circuit.or_start[shared : shared + 2]
    signs = ("c and d", "c and not d", "not c and d", "not c and not d")
    assert texts[first:stop] == tuple(f"{sign} and (not a or not b)" for sign in signs)
    assert_conditions(circuit)


def test_alternatives_lose_what_another_covers() -> None:
    cases = frozenset({frozenset({2, 0}), frozenset({2, 4, 1}), frozenset({2, 4, 5, 3})})
    of_circuit = CircuitCases(4, [cases], {})
    assert of_circuit.in_words(cases, one_by_one("abcd")) == "c and (a or b or d)"
    assert of_circuit.in_words(cases, one_by_one("abcd"), shown=1) == "c and (a, and 2 more cases)"
