"""Kept, grown and recomputed features are the same numbers: pooled flows, whatever computes and keeps them."""

import itertools
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml.backend import Backend, FeaturePrecision, NumbaBackend, NumpyBackend
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.parts import Part, initial_part
from lcml.circuits.splits import Split
from lcml.circuits.views import IdentityView, SelectedView, View, WindowView, window_vtree
from lcml.circuits.vtree import Vtree
from lcml.errors import DataError
from lcml.inputs.encoding import EncodedRows
from lcml.inputs.rows import Joined, Ordered
from lcml.learning.selection import apply_to_parts
from lcml.passes.feature_map import FeatureMap
from lcml.passes.feature_store import FeatureStore

from ..strict import StrictBackend
from ..worlds import brute_flows, examples, grown, random_splits, random_vtrees, whole

NUMPY, NUMBA = NumpyBackend(), NumbaBackend()

WINDOWS = [
    WindowView((1, 4, 5), (2, 3), grid=(2, 1)),
    WindowView((2, 4, 4), (2, 2), stride=(1, 2), padding=(1, 0), grid=(2, 2), root=True),
    WindowView((3, 1, 6), (1, 4), channels=(2, 0), root=True),
    WindowView((1, 4, 5), (2, 2), padding=(1, 0), grid=(2, 2), root=True, overlap=(1, 1)),
]


def read(store: FeatureStore) -> NDArray[np.floating]:
    return np.concatenate(list(store.map(lambda _, chunk: chunk.values()[store.row_of])), axis=1)


def by_hand(part: Part, q: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n_features, n_examples) by brute force over all worlds of every window."""
    view, n = part.view, part.circuit.n_variables
    padded = np.concatenate([q, np.zeros((len(q), 1))], axis=1)
    columns = []
    for example in padded:
        flows = []
        for position in view.index:
            p = example[position]
            flows.append(np.concatenate([p, 1 - p, brute_flows(part.circuit, p)])[part.weighted])
        bounds = view.cell_start.tolist()
        cells = [
            np.average(flows[first:stop], axis=0, weights=view.position_weight[first:stop])
            for first, stop in itertools.pairwise(bounds)
        ]
        columns.append(np.concatenate(cells))
    assert n == view.index.shape[1]
    values = np.array(columns).T
    return np.sqrt(values) if view.root else values


@pytest.mark.parametrize(
    "view",
    [
        *(SelectedView(7, inputs) for inputs in [(7, 7, 7), (2, 7, 4), (6, 0, 6), (5, 5, 5)]),
        WindowView((4, 2, 3), (2, 2), channels=(2, 1), padding=(0, 1), grid=(1, 2), root=True),
        WindowView((4, 2, 3), (2, 3), channels=(3,)),
        WindowView((1, 4, 6), (2, 2), grid=(2, 2), root=True, overlap=(1, 2)),
    ],
)
def test_the_kernel_reads_what_a_view_reads(view: View) -> None:
    vtree = window_vtree(view) if isinstance(view, WindowView) else vtrees.balanced(3)
    part = Part.full(view, grown(vtree, seed=5, rounds=3))
    q = examples(view.n_inputs, 9, seed=1)
    written = np.full((part.n_features, 9), np.nan)
    FeatureMap(view, part.circuit, part.flows, NUMBA).write(q, written, np.arange(part.n_features))
    np.testing.assert_allclose(written, by_hand(part, q)[: part.n_features], atol=1e-9)


def splits_of(part: Part, seed: int, most: int = 3) -> list[Split]:
    return random_splits(part.circuit, np.random.default_rng(seed), most)


@pytest.mark.parametrize("backend", [NUMPY, NUMBA, StrictBackend()], ids=["numpy", "numba", "strict"])
@pytest.mark.parametrize("view", WINDOWS)
def test_features_of_windows_by_brute_force(view: WindowView, backend: Backend) -> None:
    circuit = grown(window_vtree(view), seed=3, rounds=2)
    weighted = np.random.default_rng(0).random(circuit.n_literals + circuit.n_elements) < 0.7
    part = Part(view, circuit, weighted)
    q = examples(view.n_inputs, 3, seed=1)
    found = FeatureMap(view, circuit, part.flows, backend).values(backend.asarray(q))
    np.testing.assert_allclose(backend.to_host(found), by_hand(part, q), atol=1e-7)


@pytest.mark.parametrize("backend", [NUMPY, NUMBA], ids=["numpy", "numba"])
@settings(deadline=None, max_examples=40)
@given(random_vtrees(), st.integers(0, 2**16), st.integers(0, 2))
def test_grown_features_are_the_flows(backend: Backend, vtree: Vtree, seed: int, depth: int) -> None:
    parts: tuple[Part, ...] = (initial_part(IdentityView(vtree.n_variables), vtree),)
    q = examples(vtree.n_variables, 7, seed)
    kept = FeatureStore(parts, q, backend, precision="float64")
    recomputed = FeatureStore(parts, q, backend, precision="float64", budget=0)
    for step in range(4):
        after = apply_to_parts(parts, splits_of(parts[0], seed + step), depth)
        kept.grow(after)
        recomputed.grow(after)
        parts = tuple(part.part for part in after)
        np.testing.assert_allclose(read(kept), by_hand(parts[0], q), atol=1e-12)
        np.testing.assert_allclose(read(recomputed), by_hand(parts[0], q), atol=1e-12)
    assert kept.is_in_memory
    assert not recomputed.is_in_memory


@pytest.mark.parametrize("precision", ["fixed8", "fixed16", "float32", "float64"])
@pytest.mark.parametrize("backend", [NUMPY, NUMBA], ids=["numpy", "numba"])
def test_parts_grow_side_by_side(backend: Backend, precision: FeaturePrecision) -> None:
    shape = (1, 3, 4)
    views: list[tuple[View, Vtree]] = [(IdentityView(12), vtrees.grid(3, 4))]
    views += [(view, window_vtree(view)) for view in (WindowView(shape, (2, 2), grid=(1, 3), root=True),)]
    parts = tuple(initial_part(view, vtree) for view, vtree in views)
    q = examples(12, 5, seed=4)
    store = FeatureStore(parts, q, backend, precision=precision)
    for step in range(3):
        splits = [
            Split(split.element, split.variable, number)
            for number, part in enumerate(parts)
            for split in splits_of(part, 10 * step + number)
        ]
        after = apply_to_parts(parts, splits)
        store.grow(after)
        parts = tuple(part.part for part in after)
    assert store.is_in_memory
    expected = np.concatenate([by_hand(part, q) for part in parts])
    half_a_step = {"fixed8": 0.5 / 255, "fixed16": 0.5 / 65535}
    tolerance = half_a_step.get(precision, 0) + (1e-12 if precision == "float64" else 1e-6)
    np.testing.assert_allclose(read(store), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("budget", [None, 0])
@pytest.mark.parametrize("backend", [NUMPY, NUMBA], ids=["numpy", "numba"])
def test_inputs_that_no_split_circuit_reads_are_not_computed_again(backend: Backend, budget: int | None) -> None:
    """A window slides over inputs 0 to 11, a circuit that is not split reads 12 to 15."""
    window, rest = WindowView((4, 2, 2), (2, 2), channels=(0, 1, 2), root=True), SelectedView(16, (12, 13, 14, 15))
    parts = initial_part(window, window_vtree(window)), initial_part(rest, vtrees.balanced(4))
    q, asked = examples(16, 7, seed=2), []

    def some(x: NDArray[np.float64], n_outputs: int) -> NDArray[np.float64]:
        asked.append(n_outputs)
        return np.where(np.arange(16) < n_outputs, x, 0)

    def rows(x: NDArray[np.float64]) -> EncodedRows:
        return EncodedRows(x, np.copy, 16, x.dtype, some)

    order = np.array([2, 0, 1])
    given = Joined(Ordered(rows(q[order]), np.argsort(order)), rows(q[3:]))
    store = FeatureStore(parts, given, backend, precision="float64", budget=budget)
    np.testing.assert_allclose(read(store), np.concatenate([by_hand(part, q) for part in parts]), atol=1e-12)
    assert asked == []
    after = apply_to_parts(parts, splits_of(parts[0], 3))
    store.grow(after)
    expected = np.concatenate([by_hand(part.part, q) for part in after])
    np.testing.assert_allclose(read(store), expected, atol=1e-12)
    assert asked == ([12, 12] if budget is None else [])
    [shown] = store.map(lambda _, chunk: chunk.examples())
    assert np.array_equal(shown, np.where(np.arange(16) < 12, q, 0))


@pytest.mark.parametrize(("kept_as", "scale"), [(np.uint8, 255), (np.uint16, 65535)])
@pytest.mark.parametrize("backend", [NUMPY, NUMBA], ids=["numpy", "numba"])
def test_a_feature_that_rounding_puts_above_one_is_kept_as_one(backend: Backend, kept_as: Any, scale: int) -> None:
    circuit = initial_circuit(vtrees.balanced(2))
    out = np.zeros((1, 1), dtype=kept_as)
    feature = FeatureMap(IdentityView(2), circuit, np.array([circuit.n_literals]), backend)  # X0 and X1
    feature.write(np.full((1, 2), 1.0001, dtype=np.float32), out, np.array([0]), scale=scale)
    assert out.tolist() == [[scale]]


def test_products_with_kept_features() -> None:
    circuit = grown(vtrees.balanced(40), seed=0, rounds=30, per_round=20)
    part = Part.full(IdentityView(40), circuit)
    assert part.n_features > 2048  # more than a block
    q = examples(40, 30, seed=0)
    generator = np.random.default_rng(0)
    weights, signal = generator.normal(size=(3, part.n_features)), generator.normal(size=(3, 30))
    for backend, precision in itertools.product((NUMPY, NUMBA), ("fixed8", "fixed16", "float32")):
        store = FeatureStore([part], q, backend, precision=precision)  # type: ignore[arg-type]
        values = read(store).astype(np.float64)
        ((sums, correlations),) = store.map(
            lambda _, chunk: (
                chunk.weighted_sum(weights.astype(np.float32)),
                chunk.correlation(signal.astype(np.float32)),
            )
        )
        np.testing.assert_allclose(sums, weights @ values, atol=1e-3)
        np.testing.assert_allclose(correlations, signal @ values.T, atol=1e-3)


@pytest.mark.parametrize("budget", [None, 0])
def test_some_examples_of_a_chunk(budget: int | None) -> None:
    part, q = whole(initial_circuit(vtrees.balanced(5))), examples(5, 20, seed=1)
    store = FeatureStore([part], q, NUMPY, precision="fixed16", budget=budget)
    ((features, inputs),) = store.map(
        lambda _, chunk: (chunk.of(np.array([7, 2])).values(), chunk.of(np.array([7, 2])).examples())
    )
    np.testing.assert_array_equal(features, read(store)[:, [7, 2]])
    np.testing.assert_array_equal(inputs, q[[7, 2]].astype(np.float32))


def test_features_leave_memory_when_they_outgrow_the_budget() -> None:
    part = initial_part(IdentityView(4), vtrees.balanced(4))
    q = examples(4, 3000, seed=0)
    store = FeatureStore([part], q, NUMPY, precision="float64", budget=part.n_features * 3000 * 8)
    assert store.is_in_memory
    element = next(split for split in splits_of(part, 0, 9) if split.element == part.circuit.n_elements - 1)
    once = apply_to_parts([part], [element])
    after = apply_to_parts([once[0].part], splits_of(once[0].part, 1, 9))
    store.grow(once)
    store.grow(after)
    assert after[0].part.n_features > part.n_features
    assert not store.is_in_memory
    np.testing.assert_allclose(read(store)[:, :5], by_hand(after[0].part, q[:5]), atol=1e-12)


@pytest.mark.parametrize("limit", ["most_features", "budget"])
def test_growing_takes_no_memory_that_is_never_needed(limit: str) -> None:
    part = initial_part(IdentityView(64), vtrees.balanced(64))
    after = apply_to_parts([part], splits_of(part, 0, 64))[0]
    q, n_bytes = np.full((40 * NUMPY.chunk_examples, 64), 0.5, dtype=np.float32), 4 * 40 * NUMPY.chunk_examples
    most = after.part.n_features + 3
    most_features, budget = (most, None) if limit == "most_features" else (None, most * n_bytes)
    FeatureStore([part], q[:1], NUMBA).grow([after])  # what is compiled once is not to be counted
    tracemalloc.start()
    try:
        store = FeatureStore([part], q, NUMBA, most_features=most_features, budget=budget)
        tracemalloc.reset_peak()
        store.grow([after])
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert store.is_in_memory
    assert most < 1.2 * after.part.n_features  # without the limit there would be room for a quarter more
    assert after.part.n_features * n_bytes < held < 1.02 * most * n_bytes
    assert peak < 1.3 * held  # an old chunk is given up as soon as it is copied


def test_a_chunk_that_has_the_rows_it_may_need_stays_where_it_is() -> None:
    part = initial_part(IdentityView(12), vtrees.grid(3, 4))
    after = apply_to_parts([part], splits_of(part, 0))[0]
    q, most = examples(12, 5, seed=4), after.part.n_features + 2
    for limit, stays in ((most, True), (None, False)):
        store = FeatureStore([part], q, NUMPY, precision="fixed8", most_features=limit)
        assert store._chunks is not None
        chunk = store._chunks[0]
        store.grow([after])
        assert (store._chunks[0] is chunk) == stays
        np.testing.assert_allclose(read(store), by_hand(after.part, q), atol=0.51 / 255)


def test_a_circuit_that_excludes_worlds_is_kept_too() -> None:
    vtree = vtrees.balanced(2)
    circuit = Circuit(vtree, np.array([2]), np.array([0, 2]), np.array([0, 2]), np.array([3, 1]))  # x xor y
    q = np.array([[0.5, 0.25], [0.9, 0.2]])
    for backend in (NUMPY, NUMBA):
        store = FeatureStore([whole(circuit)], q, backend, precision="float64")
        both = q * (1 - q[:, ::-1])  # x and not y, y and not x
        only_x, only_y = both.T / both.sum(axis=1)
        np.testing.assert_allclose(read(store), [only_x, only_y, only_y, only_x, only_x, only_y], atol=1e-12)


def test_sums_do_not_depend_on_what_is_kept() -> None:
    part = whole(initial_circuit(vtrees.balanced(5)))
    q = examples(5, 5000, seed=1).astype(np.float32)
    stores = [FeatureStore([part], q, NUMPY), FeatureStore([part], q, NUMPY, budget=0)]
    (kept,), (recomputed,) = [store.sum(lambda _, chunk: (chunk.values().sum(axis=1),)) for store in stores]
    np.testing.assert_array_equal(kept, recomputed)
    np.testing.assert_allclose(kept[:10], [*q.astype(float).sum(axis=0), *(1 - q.astype(float)).sum(axis=0)], rtol=1e-6)


def test_some_chunks_and_their_share() -> None:
    size = NUMPY.chunk_examples
    store = FeatureStore([whole(initial_circuit(vtrees.balanced(2)))], examples(2, 2 * size + 10, seed=0), NUMPY)
    assert store.n_chunks == 3
    store.label(np.arange(2 * size + 10), np.ones(2 * size + 10))
    of_chunks = store.map(lambda known, _: (known.number, known.labels[0], known.labels[-1]), [2, 0])
    assert list(of_chunks) == [(2, 2 * size, 2 * size + 9), (0, 0, size - 1)]
    assert store.share([2]) == 10 / (2 * size + 10)
    assert [len(store.first_of([2, 0, 1], n)) for n in (10, 11, size + 10, size + 11, 9 * size)] == [1, 2, 2, 3, 3]


def test_refuses_inputs_outside_the_unit_interval() -> None:
    with pytest.raises(DataError, match="row 0, variable 1"):
        FeatureStore([whole(initial_circuit(vtrees.balanced(2)))], np.array([[0.5, 2.0]]), NUMPY)


@pytest.mark.parametrize(
    ("precision", "budget"), [("fixed16", None), ("float32", None), ("float32", 0), ("float32", 20_000)]
)
def test_a_store_that_is_extended_is_one_of_more_examples(precision: FeaturePrecision, budget: int | None) -> None:
    generator = np.random.default_rng(0)
    q = generator.random((1300, 6))
    part = initial_part(IdentityView(6), vtrees.balanced(6))
    once = apply_to_parts([part], splits_of(part, 1))
    twice = apply_to_parts([once[0].part], splits_of(once[0].part, 2))
    store = FeatureStore([part], q, NUMPY, precision=precision, budget=budget, n_examples=512)
    store.grow(once)
    store.extend(1024)
    store.grow(twice)
    store.extend(1300)
    labels = np.arange(1300)
    store.label(labels, np.ones(1300))
    assert (store.n_examples, store.n_chunks) == (1300, 3)
    everything = FeatureStore([twice[0].part], q, NUMPY, precision=precision)
    np.testing.assert_allclose(read(store), read(everything), atol=1.1 / 65535)
    known = np.concatenate(list(store.map(lambda known, _: known.labels)))
    np.testing.assert_array_equal(known, labels)
    ones = np.ones((1, store.n_rows), store.dtype)  # rows that no feature has are finite too
    assert all(store.map(lambda _, chunk: bool(np.isfinite(chunk.weighted_sum(ones)).all())))


def test_examples_are_checked_when_they_are_read() -> None:
    q = np.full((1024, 6), 0.5)
    q[600, 2] = 1.5
    part = initial_part(IdentityView(6), vtrees.balanced(6))
    store = FeatureStore([part], q, NUMPY, n_examples=512)
    with pytest.raises(DataError, match=r"1\.5"):
        store.extend(1024)


@pytest.mark.parametrize(("precision", "budget"), [("fixed16", None), ("float32", 0)])
def test_joined_stores_are_one_of_both(precision: FeaturePrecision, budget: int | None) -> None:
    q = np.random.default_rng(0).random((1300, 6))
    part = initial_part(IdentityView(6), vtrees.balanced(6))
    grown_parts = apply_to_parts([part], splits_of(part, 1))
    first, second = (
        FeatureStore([part], some, NUMPY, precision=precision, budget=budget) for some in (q[:700], q[700:])
    )
    for store in (first, second):
        store.grow(grown_parts)
    expected = np.concatenate([read(first), read(second)], axis=1)
    first.join(second)
    assert (first.n_examples, first.n_chunks) == (1300, 3)
    np.testing.assert_array_equal(read(first), expected)
    values = np.concatenate(list(first.map(lambda _, chunk: chunk.examples())))
    np.testing.assert_array_equal(values, q.astype(np.float32))


@pytest.mark.parametrize("budget", [None, 0, 20_000])  # of 14 features 67,200 bytes, of 3 of them 14,400
def test_a_store_keeps_some_of_its_features(budget: int | None) -> None:
    q = np.random.default_rng(0).random((1200, 6))
    part = initial_part(IdentityView(6), vtrees.balanced(6))
    (grown_part,) = apply_to_parts([part], splits_of(part, 1))
    store = FeatureStore([part], q, NUMPY, budget=budget)
    store.grow([grown_part])
    before, part = read(store), grown_part.part
    assert len(before) == 14
    fewer = replace(part, weighted=np.isin(np.arange(len(part.weighted)), part.flows[[1, 4, 11]]))
    store.keep([fewer], np.array([1, 4, 11]))
    assert (store.n_features, store.is_in_memory) == (3, budget != 0)
    np.testing.assert_array_equal(read(store), before[[1, 4, 11]])
    np.testing.assert_allclose(read(store)[:, :9], by_hand(fewer, q[:9]), atol=1e-6)
