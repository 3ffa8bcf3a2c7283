"""The CUDA kernel for features of product circuits: its source as C++ on the host, and through cupy where a device
answers, beside the kernel of numba and the passes of numpy."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lcml.backend import FeaturePrecision, NumbaBackend, NumpyBackend
from lcml.backend.kernels import cuda_products
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.parts import initial_part
from lcml.circuits.splits import Split
from lcml.circuits.views import IdentityView, View, WindowView, window_vtree
from lcml.circuits.vtree import Vtree
from lcml.learning.learner import Learner
from lcml.learning.pairs import free_pairs
from lcml.learning.selection import apply_to_parts
from lcml.learning.settings import LearnSettings
from lcml.learning.state import EncodedSet
from lcml.passes.feature_map import FeatureMap
from lcml.passes.feature_store import FeatureStore
from lcml.passes.products import compile_products

from ...worlds import examples, grown, random_splits
from .host import HOST_AND_CARD, both_backends

NUMPY = NumpyBackend()

VIEWS: dict[str, tuple[View, Circuit]] = {
    "one variable": (IdentityView(1), initial_circuit(vtrees.balanced(1))),
    "whole": (IdentityView(20), grown(vtrees.grid(4, 5), seed=4, rounds=8, per_round=9, depth=1)),
    "shared": (IdentityView(9), grown(vtrees.balanced(9), seed=1, rounds=6, per_round=9)),
}
for name, view in {
    "cells": WindowView((1, 5, 6), (2, 3), grid=(2, 3)),
    "padding": WindowView((2, 4, 4), (2, 2), stride=(1, 2), padding=(1, 1), grid=(1, 2), root=True),
    "a cell each": WindowView((2, 4, 4), (2, 2), stride=(1, 2), padding=(1, 1), grid=(5, 3)),
    "overlap": WindowView((1, 5, 6), (2, 3), grid=(2, 2), root=True, overlap=(1, 2)),
    "channels": WindowView((3, 1, 6), (1, 4), channels=(2, 0), root=True),
}.items():
    VIEWS[name] = view, grown(window_vtree(view), seed=3, rounds=4, per_round=5)


@pytest.fixture(scope="module", params=HOST_AND_CARD)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return both_backends(request, tmp_path_factory)


def wanted_of(circuit: Circuit) -> NDArray[np.int64]:
    """Some literals and elements, the last among them."""
    n_flows = circuit.n_literals + circuit.n_elements
    chosen = np.random.default_rng(0).random(n_flows) < 0.7
    chosen[-1] = True
    return np.flatnonzero(chosen)


@pytest.mark.parametrize("most", [1 << 30, 1, 300_000])  # a thread per example and cell, one block, a few blocks
@pytest.mark.parametrize("n_examples", [1, 64, 150])
@pytest.mark.parametrize("name", VIEWS)
def test_features(backend: Any, name: str, n_examples: int, most: int) -> None:
    view, circuit = VIEWS[name]
    q, wanted = examples(view.n_inputs, n_examples, seed=2), wanted_of(circuit)
    pairs = free_pairs(circuit)[:, ::2]
    program = compile_products(circuit, wanted, pairs)
    expected = FeatureMap(view, circuit, wanted, NUMPY, pairs).values(q)
    rows = np.random.default_rng(1).permutation(len(expected) + 3)[: len(expected)].astype(np.int32)
    found = backend.asarray(np.full((len(expected) + 3, n_examples), 7.0))
    cuda_products.product_features(
        backend.xp,
        (*map(backend.asarray, (view.index, view.cell_start, view.position_weight)), view.root),
        tuple(map(backend.asarray, program)),
        backend.asarray(q),
        backend.asarray(rows),
        1,
        found,
        most,
    )
    found = backend.to_host(found)
    np.testing.assert_allclose(found[rows], expected, atol=1e-12)
    assert (np.delete(found, rows, axis=0) == 7).all()


@pytest.mark.parametrize("name", VIEWS)
def test_as_numba(backend: Any, name: str) -> None:
    view, circuit = VIEWS[name]
    q, wanted = examples(view.n_inputs, 70, seed=5).astype(np.float32), wanted_of(circuit)
    numba, cuda = (FeatureMap(view, circuit, wanted, of) for of in (NumbaBackend(), backend))
    rows = np.arange(numba.n_rows)[::-1]
    for dtype, scale, tolerance in ((np.float32, 1, 2e-6), (np.uint16, 65535, 1), (np.uint8, 255, 1)):
        expected, found = np.zeros((len(rows), 70), dtype), backend.xp.zeros((len(rows), 70), dtype=dtype)
        numba.write(q, expected, rows, scale=scale)
        cuda.write(backend.asarray(q), found, rows, scale=scale)
        difference = backend.to_host(found).astype(np.float64) - expected
        assert np.abs(difference).max() <= tolerance


@pytest.mark.parametrize(("kept_as", "scale"), [(np.uint8, 255), (np.uint16, 65535)])
def test_fixed_point_by_hand(backend: Any, kept_as: Any, scale: int) -> None:
    # two windows of one pixel in one cell: q and 1 - q averaged, rooted and rounded to the nearest level
    view = WindowView((1, 1, 2), (1, 1), root=True)
    features = FeatureMap(view, initial_circuit(vtrees.balanced(1)), np.array([0, 1]), backend)
    found = backend.xp.zeros((2, 3), dtype=kept_as)
    features.write(backend.asarray(np.array([[0, 0], [1, 1], [0.5, 0]], np.float32)), found, np.arange(2), scale=scale)
    half, rest = int(scale * 0.25**0.5 + 0.5), int(scale * 0.75**0.5 + 0.5)
    assert backend.to_host(found).tolist() == [[0, scale, half], [scale, 0, rest]]


def test_grid() -> None:
    grid = cuda_products.grid
    assert grid(150, 36, 4, n_slots=10, n_wanted=5, itemsize=4) == (3, 4, 15)
    assert grid(150, 36, 36, n_slots=10, n_wanted=5, itemsize=4) == (3, 36, 10)  # a position per cell: no totals
    assert grid(150, 36, 4, n_slots=10, n_wanted=5, itemsize=4, most=9 * 64 * 60) == (2, 4, 15)
    assert grid(150, 36, 4, n_slots=10, n_wanted=5, itemsize=4, most=3 * 64 * 60) == (1, 3, 15)
    assert grid(1, 1, 1, n_slots=0, n_wanted=1, itemsize=8, most=1).scratch_shape == (0, 64)


@pytest.mark.parametrize("precision", ["fixed8", "fixed16", "float32", "float64"])
def test_kept_features_grow(backend: Any, precision: FeaturePrecision) -> None:
    pooled = WindowView((1, 3, 4), (2, 2), grid=(1, 3), root=True)
    places: list[tuple[View, Vtree]] = [(IdentityView(12), vtrees.grid(3, 4)), (pooled, window_vtree(pooled))]
    parts = tuple(initial_part(view, vtree) for view, vtree in places)
    q = examples(12, 40, seed=4)
    stores = [FeatureStore(parts, q, of, precision=precision, budget=1 << 20) for of in (backend, NUMPY)]
    for step in range(2):
        splits = [
            Split(split.element, split.variable, number)
            for number, part in enumerate(parts)
            for split in random_splits(part.circuit, np.random.default_rng(step), 3)
        ]
        after = apply_to_parts(parts, splits)
        parts = tuple(grown.part for grown in after)
        for store in stores:
            store.grow(after)
    found, expected = (
        np.concatenate([store.backend.to_host(values) for values in store.map(lambda _, chunk: chunk.values())], axis=1)
        for store in stores
    )
    assert stores[0].is_in_memory
    tolerance = {"fixed8": 1.1 / 255, "fixed16": 1.1 / 65535, "float32": 1e-6, "float64": 1e-12}[precision]
    np.testing.assert_allclose(found[stores[0].row_of], expected[stores[1].row_of], atol=tolerance)


def test_learns_what_numpy_learns(backend: Any) -> None:
    q = examples(20, 120, seed=6)
    labels = (q[:, 0] + q[:, 6] * q[:, 7] > 0.9).astype(np.int64) + (q[:, 13] > 0.5)
    data = EncodedSet(q, labels), EncodedSet(q[:50], labels[:50])
    pooled = WindowView((1, 4, 5), (2, 3), padding=(1, 0), grid=(2, 1), root=True)
    places: list[tuple[View, Vtree]] = [(IdentityView(20), vtrees.grid(4, 5)), (pooled, window_vtree(pooled))]
    settings = LearnSettings(precision="float64", rounds=2, round_iterations=15, l2=1e-3, memory_budget=1)
    states = []
    for of in (backend, NUMPY):
        learner = Learner(places, *data, 3, settings, of)
        list(learner.grow())
        states.append(learner.state)
    first, second = states
    assert first is not None
    assert second is not None
    assert first.history == second.history
    np.testing.assert_allclose(first.best.parameters.flat(), second.best.parameters.flat(), atol=1e-6)
