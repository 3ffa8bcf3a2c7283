"""The circuit that passes are measured on: the authors' where it is at hand, else one as large, grown at random."""

from pathlib import Path

import numpy as np

from lcml.circuits import vtree
from lcml.formats import read_circuit, read_vtree
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.model import LogisticCircuit
from tests.worlds import grown


def mnist_model(data_dir: Path | None) -> LogisticCircuit:
    """784 variables, ten classes."""
    authors = None if data_dir is None else data_dir / "ucla"
    if authors is not None and authors.is_dir():
        return read_circuit(authors / "mnist.circuit", read_vtree(authors / "balanced.vtree"), scale=255.0)
    circuit = grown(vtree.grid(28, 28), seed=0, rounds=6, per_round=300, depth=1)
    weights = np.random.default_rng(0).normal(size=(10, circuit.n_elements))
    return LogisticCircuit.flat(
        circuit, ScaleEncoder(np.zeros(784), np.full(784, 255.0)), tuple(range(10)), weights, None, np.zeros(10)
    )
