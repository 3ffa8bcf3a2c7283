"""The layout of a handful of examples: its long sums, cut into groups, are the sums."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from lcml_export.factoring import factor
from lcml_export.graph import ML_DOMAIN, Graph, Operators
from lcml_export.layouts import LONG_SUM, MOST_SETS, logits_by_examples
from lcml_export.reduction import TermSum
from tests.export.models import run_onnxruntime, run_reference

N_VARIABLES = 60


def sum_of_terms(n_terms: int, n_sets: int) -> TermSum:
    """Of distinct terms of two to five literals, no two of a variable, with whole weights."""
    generator = np.random.default_rng([n_terms, n_sets])
    terms: dict[frozenset[int], None] = {}
    while len(terms) < n_terms:
        variables = generator.permutation(N_VARIABLES)[: generator.integers(2, 6)]
        terms[frozenset((variables + N_VARIABLES * generator.integers(0, 2, len(variables))).tolist())] = None
    weights = generator.integers(-9, 10, (n_sets, n_terms)).astype(float)
    return TermSum(N_VARIABLES, list(terms), weights, np.zeros(n_sets))


@pytest.mark.parametrize("n_sets", [1, 2, MOST_SETS, MOST_SETS + 1])
@pytest.mark.parametrize("n_terms", [LONG_SUM // 3, LONG_SUM, LONG_SUM + 1, LONG_SUM + 2])
def test_long_sums(n_terms: int, n_sets: int, tmp_path: Path) -> None:
    terms = sum_of_terms(n_terms, n_sets)
    program, graph = factor(terms), Graph(Operators())
    graph.op("Identity", logits_by_examples(graph, program, "features"), output="logits")
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", width])
        for name, width in (("features", 2 * N_VARIABLES), ("logits", n_sets))
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML_DOMAIN, 3)]
    proto = helper.make_graph(graph.nodes, "sums", values[:1], values[1:], graph.initializers)
    model = helper.make_model(proto, opset_imports=opsets)
    model.ir_version = helper.find_min_ir_version_for(model.opset_import)
    onnx.save(model, path := tmp_path / "sums.onnx")

    is_cut = program.weights.shape[1] >= LONG_SUM and n_sets <= MOST_SETS
    assert sum(node.op_type == "MatMul" for node in graph.nodes) == (2 if is_cut else 1)
    for n in (0, 1, 2, 5):
        q = np.random.default_rng(n).integers(0, 2, (n, N_VARIABLES))
        literals = np.concatenate([q, 1 - q], axis=1)
        by_hand = [
            [
                sum(w for w, term in zip(row, terms.terms, strict=True) if all(x[i] for i in term))
                for row in terms.weights
            ]
            for x in literals
        ]
        for run in run_onnxruntime, run_reference:
            assert (
                run(path, literals.astype(np.float32))["logits"].tolist() == np.reshape(by_hand, (n, n_sets)).tolist()
            )
