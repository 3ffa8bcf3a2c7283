"""Hypothesis strategies for whole models, and their comparison bit by bit."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.splits import Split, apply_splits
from lcml.circuits.vtree import Vtree, random
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml.inputs.encoding import Encoder
from lcml.model.head import HEADS, Link
from lcml.model.model import LogisticCircuit

FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def circuits(draw: st.DrawFn, max_variables: int = 6) -> Circuit:
    """The initial circuit of a random vtree, grown by a few random splits."""
    n_variables = draw(st.integers(1, max_variables))
    circuit = initial_circuit(random(n_variables, draw(st.integers(0, 99))))
    for _ in range(draw(st.integers(0, 3))):
        free = [
            Split(element, variable)
            for element in range(circuit.n_elements)
            for variable in circuit.vtree.scope(circuit.or_vtree[circuit.elem_or[element]]).tolist()
            if not {variable, variable + n_variables}
            & (circuit.implied[circuit.elem_prime[element]] | circuit.implied[circuit.elem_sub[element]])
        ]
        if free:
            circuit = apply_splits(circuit, [draw(st.sampled_from(free))], draw(st.integers(0, 1))).circuit
    return circuit


@st.composite
def models(draw: st.DrawFn) -> LogisticCircuit:
    """Any model: extreme weights, both encoders, both links, integer and text classes."""
    circuit = draw(circuits())
    classes: Any = draw(
        st.lists(st.integers(-9, 9), min_size=2, max_size=4, unique=True)
        | st.lists(st.text(max_size=3), min_size=2, max_size=4, unique=True)
    )
    link: Link = draw(st.sampled_from(["sigmoid", "softmax"]))
    n_sets = HEADS[link].n_sets(len(classes))
    literal_weights = arrays(np.float64, (n_sets, circuit.n_literals), elements=FINITE)
    return LogisticCircuit.flat(
        circuit=circuit,
        encoder=draw(encoders(circuit.n_variables)),
        classes=tuple(classes),
        element_weights=draw(arrays(np.float64, (n_sets, circuit.n_elements), elements=FINITE)),
        literal_weights=draw(st.none() | literal_weights),
        bias=draw(arrays(np.float64, (n_sets,), elements=FINITE)),
        link=link,
        provenance=draw(st.dictionaries(st.text(max_size=5), JSON, max_size=3)),
    )


def encoders(n_features: int) -> st.SearchStrategy[Encoder]:
    columns = arrays(np.float64, n_features, elements=st.floats(-1e300, 1e300))
    scale = st.tuples(columns, columns).map(lambda pair: ScaleEncoder(np.minimum(*pair), np.maximum(*pair)))
    return scale | columns.map(BooleanEncoder)


def assert_same_model(found: LogisticCircuit, expected: LogisticCircuit) -> None:
    """Every array equal to the bit, everything else equal."""
    assert_same_vtree(found.circuit.vtree, expected.circuit.vtree)
    assert found.circuit.same_as(expected.circuit)
    for name in ("element_weights", "literal_weights", "bias"):
        assert_same_bits(getattr(found, name), getattr(expected, name))
    assert type(found.encoder) is type(expected.encoder)
    for name, array in expected.encoder.state().items():
        assert_same_bits(found.encoder.state()[name], array)
    assert found.classes == expected.classes
    assert [type(c) for c in found.classes] == [type(c) for c in expected.classes]
    assert found.link == expected.link
    assert found.provenance == expected.provenance


def assert_same_vtree(found: Vtree, expected: Vtree) -> None:
    for name in ("left", "right", "variable"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()


def assert_same_bits(found: Any, expected: Any) -> None:
    if expected is None:
        assert found is None
    else:
        assert (found.dtype, found.shape, found.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
