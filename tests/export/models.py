"""Models for the export tests, and how to run what was exported."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from lcml import vtree as vtrees
from lcml.circuit import Circuit
from lcml.encoder import BooleanEncoder, Encoder, ScaleEncoder
from lcml.model import Link, LogisticCircuit, n_weight_sets
from tests.worlds import grown, random_circuits


def model_on(
    circuit: Circuit,
    classes: tuple[Any, ...] = (0, 1, 2),
    link: Link = "sigmoid",
    encoder: Encoder | None = None,
    *,
    literals: bool = True,
    seed: int = 0,
) -> LogisticCircuit:
    """A model with standard normal weights on `circuit`."""
    generator = np.random.default_rng(seed)
    n_sets, n = n_weight_sets(len(classes), link), circuit.n_variables
    return LogisticCircuit.flat(
        circuit=circuit,
        encoder=encoder or ScaleEncoder(np.zeros(n), np.ones(n)),
        classes=classes,
        element_weights=generator.normal(size=(n_sets, circuit.n_elements)),
        literal_weights=generator.normal(size=(n_sets, circuit.n_literals)) if literals else None,
        bias=generator.normal(size=n_sets),
        link=link,
    )


@st.composite
def small_models(draw: st.DrawFn) -> LogisticCircuit:
    """Random circuits with either encoder, either link, integer or text classes, with and without literal weights."""
    circuit = draw(random_circuits(7))
    classes = draw(st.sampled_from([(0, 1), (0, 1, 2), ("no", "yes"), ("a", "b", "c", "d"), (7, -3), (5, 2, 9)]))
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    low = generator.normal(size=circuit.n_variables).round(2)
    kinds: list[Encoder] = [
        ScaleEncoder(low, low + generator.random(circuit.n_variables).round(1)),
        ScaleEncoder(np.zeros(circuit.n_variables), np.full(circuit.n_variables, 255.0)),
        BooleanEncoder(low),
    ]
    link: Link = draw(st.sampled_from(["sigmoid", "softmax"]))
    encoder = draw(st.sampled_from(kinds))
    return model_on(circuit, classes, link, encoder, literals=draw(st.booleans()), seed=draw(st.integers(0, 99)))


def wide_circuit(n_variables: int = 40, seed: int = 3) -> Circuit:
    """A circuit with deep contexts, shared gates and flows that are sums of products."""
    return grown(vtrees.balanced(n_variables), seed, rounds=12, per_round=8, depth=1)


def xor_circuit() -> Circuit:
    """Over three variables, Pr(root) = 1: the gates X0 = X1 and X0 != X1 are no products of literals."""
    vtree = vtrees.Vtree(*np.array([[3, -1, -1, 1, -1], [4, -1, -1, 2, -1], [-1, 0, 1, -1, 2]], dtype=np.int32))
    return Circuit(
        vtree,
        or_vtree=np.array([3, 3, 0], dtype=np.int32),
        or_start=np.array([0, 2, 4, 8], dtype=np.int32),
        elem_prime=np.array([0, 3, 0, 3, 6, 6, 7, 7], dtype=np.int32),
        elem_sub=np.array([1, 4, 4, 1, 2, 5, 2, 5], dtype=np.int32),
    )


def thinned(circuit: Circuit, seed: int, most: int = 3) -> Circuit:
    """`circuit` without a few elements: Pr(root) is below 1, and some examples contradict it."""
    generator = np.random.default_rng(seed)
    kept = np.ones(circuit.n_elements, dtype=bool)
    uses = np.bincount(np.concatenate([circuit.elem_prime, circuit.elem_sub]), minlength=circuit.n_nodes)
    size = np.diff(circuit.or_start).copy()
    for element in generator.permutation(circuit.n_elements).tolist():
        children = [circuit.elem_prime[element], circuit.elem_sub[element]]
        free = all(child < circuit.n_literals or uses[child] > 1 for child in children)
        if free and size[circuit.elem_or[element]] > 1 and (~kept).sum() < most:
            kept[element] = False
            uses[children] -= 1
            size[circuit.elem_or[element]] -= 1
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int32)
    return Circuit(circuit.vtree, circuit.or_vtree, start, circuit.elem_prime[kept], circuit.elem_sub[kept])


def run_onnxruntime(path: Path, features: NDArray[Any], **others: NDArray[Any]) -> dict[str, NDArray[Any]]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"features": features} | others), strict=True))


def run_reference(path: Path, features: NDArray[Any]) -> dict[str, NDArray[Any]]:
    model = onnx.load(path)
    outputs = ReferenceEvaluator(model).run(None, {"features": features})
    return dict(zip((output.name for output in model.graph.output), outputs, strict=True))
