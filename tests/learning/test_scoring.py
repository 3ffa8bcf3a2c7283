"""Split scores against brute force; planted features are found first; choosing respects its limits."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from lcml.backend import Backend, NumbaBackend, NumpyBackend
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import WindowView, window_vtree
from lcml.learning.objective import Objective
from lcml.learning.pairs import free_pairs
from lcml.learning.scoring import Candidates, Criterion, _SplitScorer, race_splits, score_splits
from lcml.learning.selection import apply_within, choose_splits
from lcml.learning.solver import SolverSettings, minimise
from lcml.passes.feature_store import FeatureStore

from ..backend.kernels.circuits import even_circuit
from ..strict import StrictBackend
from ..worlds import brute_flows, examples, free_variables, grown, whole

NUMPY = NumpyBackend()
CIRCUIT = grown(vtrees.grid(2, 3), seed=4, rounds=2)


def problem(backend: Backend = NUMPY) -> Objective:
    q = examples(6, 40, seed=7)
    labels = np.random.default_rng(0).integers(0, 3, 40)
    store = FeatureStore([whole(CIRCUIT)], q, backend, precision="float64")
    return Objective(store, labels, 3, l2=0.01)


def by_pair(candidates: Candidates) -> dict[tuple[int, int], float]:
    pairs = zip(candidates.element.tolist(), candidates.variable.tolist(), strict=True)
    return dict(zip(pairs, candidates.score.tolist(), strict=True))


def flows_of(objective: Objective) -> NDArray[np.float64]:
    store = objective.features
    return np.concatenate(list(store.map(lambda _, chunk: chunk.values()[store.row_of])), axis=1)[12:]


@pytest.mark.parametrize("criterion", ["gain", "variance"])
def test_scores_match_their_formulas_split_by_split(criterion: Criterion) -> None:
    objective = problem()
    fitted = minimise(objective, objective.zeros(), SolverSettings(30)).parameters
    found = by_pair(score_splits(objective, fitted, criterion, minimum_support=0.5, per_element=6))
    q, flow = examples(6, 40, seed=7), flows_of(objective)
    p = 1 / (1 + np.exp(-objective.logits(fitted)))
    residual = (p - np.eye(3)[objective.labels]) / 40
    curvature = p * (1 - p) / 40
    expected = {}
    for element in range(CIRCUIT.n_elements):
        for variable in free_variables(CIRCUIT, element):
            f, x = flow[element], q[:, variable]
            if min((f * x).sum(), (f * (1 - x)).sum()) < 0.5:
                continue
            score = 0.0
            for k in range(3):
                r, h = residual[:, k], curvature[:, k]
                if criterion == "gain":
                    phi, d = f * x, (h * f * f).sum() + 0.01
                    c = (h * f * phi).sum()
                    score += ((r * phi).sum() - (r * f).sum() * c / d) ** 2 / ((h * phi**2).sum() - c**2 / d + 0.01)
                else:
                    g = r * f
                    for w, sign in ((f, 1), (f * x, -1), (f * (1 - x), -1)):
                        mean = (w * g).sum() / w.sum()
                        score += sign * (w * (g - mean) ** 2).sum() / f.sum()
            expected[element, variable] = score
    assert found.keys() == {pair for pair, score in expected.items() if score > 0}
    for pair, score in found.items():
        assert score == pytest.approx(expected[pair], rel=1e-6)


def test_gain_is_the_decrease_of_the_loss_for_a_small_feature() -> None:
    # at the optimum of the present features, adding phi alone lowers the quadratic model of the loss by gain / 2
    objective = problem()
    fitted = minimise(objective, objective.zeros(), SolverSettings(3000, 1e-10)).parameters
    scores = score_splits(objective, fitted, "gain", minimum_support=0.0)
    best = int(np.argmax(scores.score))
    phi = flows_of(objective)[scores.element[best]] * examples(6, 40, seed=7)[:, scores.variable[best]]
    p = 1 / (1 + np.exp(-objective.logits(fitted)))
    residual, curvature = (p - np.eye(3)[objective.labels]) / 40, p * (1 - p) / 40
    f = flows_of(objective)[scores.element[best]]
    total = 0.0
    for k in range(3):
        gram = np.array([[(curvature[:, k] * a * b).sum() for a in (f, phi)] for b in (f, phi)]) + 0.01 * np.eye(2)
        slope = np.array([(residual[:, k] * a).sum() for a in (f, phi)])
        total += slope @ np.linalg.solve(gram, slope) - slope[0] ** 2 / gram[0, 0]
    assert scores.score[best] == pytest.approx(total, rel=1e-9)


def planted(rule: str, seed: int = 0) -> tuple[Objective, NDArray[np.float64]]:
    generator = np.random.default_rng(seed)
    q = generator.integers(0, 2, (600, 8)).astype(float)
    target = {"conjunction": q[:, 1] * q[:, 4] * q[:, 6], "xor": (q[:, 0] + q[:, 3]) % 2}[rule]
    # under a right-linear vtree every element decides one variable and leaves all to its right free
    vtree = vtrees.balanced(8) if rule == "conjunction" else vtrees.right_linear(8)
    store = FeatureStore([whole(initial_circuit(vtree))], q, NUMPY, precision="float64")
    return Objective(store, target.astype(np.int64), 2, l2=1e-4), q


@pytest.mark.parametrize("criterion", ["gain", "variance"])
@pytest.mark.parametrize(("rule", "relevant"), [("conjunction", {1, 4, 6}), ("xor", {0, 3})])
def test_a_planted_feature_is_found_first(criterion: Criterion, rule: str, relevant: set[int]) -> None:
    objective, _ = planted(rule)
    for _ in range(2 if rule == "conjunction" else 1):
        fitted = minimise(objective, objective.zeros(), SolverSettings(200)).parameters
        parts = objective.features.parts
        chosen = choose_splits(parts, score_splits(objective, fitted, criterion, minimum_support=5), 40)
        first = max(chosen, key=lambda choice: choice.score)
        assert first.split.variable in relevant
        _, result = apply_within(parts, chosen[:3], None)
        objective.features.grow(result)
        objective = Objective(objective.features, objective.labels, 2, l2=1e-4)
    fitted = minimise(objective, objective.zeros(), SolverSettings(500, 1e-8)).parameters
    right = (objective.logits(fitted)[:, 0] > 0) == objective.labels
    assert right.mean() == 1.0


def test_scores_on_some_chunks_estimate_the_whole() -> None:
    generator = np.random.default_rng(0)
    size = NUMPY.chunk_examples
    q = generator.random((4 * size, 6))
    q[size:] = np.tile(q[:size], (3, 1))  # every chunk holds the same examples
    labels = np.tile(generator.integers(0, 2, size), 4)
    objective = Objective(FeatureStore([whole(CIRCUIT)], q, NUMPY, precision="float64"), labels, 2, l2=0.01)
    zero = objective.zeros()
    every = by_pair(score_splits(objective, zero, minimum_support=100))
    part = by_pair(score_splits(objective, zero, minimum_support=100, chunks=[2]))
    assert every.keys() == part.keys()
    for pair, score in every.items():
        assert 4 * part[pair] == pytest.approx(score, rel=1e-9)


def test_a_short_last_chunk_is_no_sample() -> None:
    generator = np.random.default_rng(0)
    q = generator.integers(0, 2, (3 * NUMPY.chunk_examples + 1, 8)).astype(float)  # of four chunks the last holds one
    labels = (q[:, 0] != q[:, 3]).astype(np.int64)
    store = FeatureStore([whole(initial_circuit(vtrees.right_linear(8)))], q, NUMPY)
    objective = Objective(store, labels, 2, l2=1e-4)
    found = [
        race_splits(objective, objective.zeros(), minimum_support=10, chunks=chunks)
        for chunks in ([0, 1, 2, 3], [3, 0, 1, 2])
    ]
    best = [{*zip(each.element.tolist(), each.variable.tolist(), strict=True)} for each in found]
    assert len(best[0]) == len(best[1]) > 0
    assert all(each.variable[np.argmax(each.score)] in (0, 3) for each in found)


def test_scoring_stays_on_the_device() -> None:
    host, device = problem(), problem(StrictBackend())
    zero = host.zeros()
    assert by_pair(score_splits(device, zero)) == pytest.approx(by_pair(score_splits(host, zero)))


def test_nothing_to_split_over_one_variable() -> None:
    store = FeatureStore([whole(initial_circuit(vtrees.balanced(1)))], np.array([[0.1], [0.9]]), NUMPY)
    objective = Objective(store, np.array([0, 1]), 2)
    assert not len(score_splits(objective, objective.zeros()).score)


def test_choice_respects_its_room_and_skips_equal_features() -> None:
    circuit = initial_circuit(vtrees.balanced(8))
    # elements of flow 1: splitting any of them on X0 gives the same feature; the lowest of them costs least
    root = circuit.n_elements - 1
    flow_one = np.flatnonzero(circuit.flow_class == circuit.flow_class[root])
    within = [e for e in flow_one if 0 in circuit.vtree.scope(circuit.or_vtree[circuit.elem_or[e]])]
    zeros = np.zeros(len(within), dtype=np.int64)
    candidates = Candidates(zeros, np.array(within), zeros, np.ones(len(within)))
    chosen = choose_splits([whole(circuit)], candidates, 1000)
    assert [choice.split.element for choice in chosen] == [min(within)]
    assert not choose_splits([whole(circuit)], candidates, 0)


def test_limits_on_elements_and_features_hold() -> None:
    objective, _ = planted("conjunction")
    parts = objective.features.parts
    n_elements, n_features = parts[0].circuit.n_elements, parts[0].n_features
    chosen = choose_splits(parts, score_splits(objective, objective.zeros(), minimum_support=1), 1000)
    for room in (0, 3, 10):
        kept, grown_parts = apply_within(parts, chosen, None, n_elements + room)
        assert grown_parts[0].part.circuit.n_elements <= n_elements + room
        assert kept == chosen[: len(kept)]
        kept, grown_parts = apply_within(parts, chosen, n_features + room)
        assert grown_parts[0].part.n_features <= n_features + room
        assert kept == chosen[: len(kept)]
    assert apply_within(parts, chosen, None)[0] == chosen


@pytest.mark.parametrize("criterion", ["gain", "variance"])
@pytest.mark.parametrize(("root", "overlap"), [(False, (0, 0)), (True, (0, 0)), (True, (1, 0))])
def test_scores_of_windows_match_their_formulas(criterion: Criterion, root: bool, overlap: tuple[int, int]) -> None:
    # every candidate of every cell by plain loops: pool f x first, take the square root, only then square
    view = WindowView((1, 3, 5), (2, 3), grid=(2, 1), root=root, overlap=overlap)
    circuit = grown(window_vtree(view), seed=1, rounds=1)
    part = Part.full(view, circuit)
    generator = np.random.default_rng(2)
    q, labels = examples(15, 12, seed=3), generator.integers(0, 3, 12)
    objective = Objective(FeatureStore([part], q, NUMPY, precision="float64"), labels, 3, l2=0.01)
    zero = objective.zeros()
    theta = zero.from_flat(generator.normal(size=zero.flat().size) * 0.1)
    found = by_pair(score_splits(objective, theta, criterion, minimum_support=0.0, per_element=6))
    p = 1 / (1 + np.exp(-objective.logits(theta)))
    residual, curvature = (p - np.eye(3)[labels]) / 12, p * (1 - p) / 12
    flow = np.array([[brute_flows(circuit, example[position]) for position in view.index] for example in q])
    for (element, variable), score in found.items():
        expected = 0.0
        for first, stop in pairwise(view.cell_start.tolist()):
            f, weights = flow[:, first:stop, element], view.position_weight[first:stop]
            phi = np.average(f * q[:, view.index[first:stop, variable]], axis=1, weights=weights)
            f = np.average(f, axis=1, weights=weights)
            feature = np.sqrt(f) if root else f
            for k in range(3):
                r, h = residual[:, k], curvature[:, k]
                if criterion == "gain":
                    new = np.sqrt(phi) if root else phi
                    c, d = (h * feature * new).sum(), (h * feature**2).sum() + 0.01
                    slope = (r * new).sum() - (r * feature).sum() * c / d
                    expected += slope**2 / ((h * new**2).sum() - c**2 / d + 0.01)
                else:
                    g = r * feature
                    for w, sign in ((f, 1), (phi, -1), (f - phi, -1)):
                        mean = (w * g).sum() / w.sum() if w.sum() > 0 else 0.0
                        expected += sign * (w * (g - mean) ** 2).sum() / f.sum()
        assert score == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert len(found) > 10


GRID = WindowView((1, 3, 5), (2, 3), grid=(2, 1))
ROOT = WindowView((2, 4, 4), (2, 2), padding=(1, 1), grid=(1, 2), root=True, channels=(1, 0))
PARTS = {
    "flat": whole(CIRCUIT),
    "not a product": whole(even_circuit()),
    "windows": Part.full(GRID, grown(window_vtree(GRID), seed=1, rounds=2)),
    "windows, root": Part.full(ROOT, grown(window_vtree(ROOT), seed=2, rounds=3)),
}


def sampled(name: str, backend: Backend, n_examples: int) -> Objective:
    part = PARTS[name]
    q = examples(part.view.n_inputs, n_examples, seed=3)
    labels = np.random.default_rng(2).integers(0, 3, n_examples)
    return Objective(FeatureStore([part], q, backend, precision="float64"), labels, 3, l2=0.01)


@pytest.mark.parametrize("criterion", ["gain", "variance"])
@pytest.mark.parametrize("name", PARTS)
def test_backends_agree(name: str, criterion: Criterion) -> None:
    reference, *others = (sampled(name, backend, 14) for backend in (NUMPY, NumbaBackend(), StrictBackend()))
    theta = reference.zeros()
    theta = theta.from_flat(np.random.default_rng(4).normal(size=theta.flat().size) * 0.1)
    expected = by_pair(score_splits(reference, theta, criterion, minimum_support=0.3, per_element=9))
    assert expected
    for other in others:
        found = by_pair(score_splits(other, theta, criterion, minimum_support=0.3, per_element=9))
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("n_chunks", [3, 9])
@pytest.mark.parametrize("criterion", ["gain", "variance"])
@pytest.mark.parametrize("name", ["flat", "windows", "windows, root"])
def test_a_race_gives_finalists_their_scores_on_the_whole_sample(
    name: str, criterion: Criterion, n_chunks: int
) -> None:
    objective = sampled(name, StrictBackend(), 4 * n_chunks - 1)
    theta = objective.zeros()
    every = by_pair(score_splits(objective, theta, criterion, minimum_support=0.0, per_element=9))
    all_kept = race_splits(objective, theta, criterion, minimum_support=0.0, screen=1, finalists=99, per_element=9)
    assert by_pair(all_kept) == pytest.approx(every, rel=1e-12, abs=1e-15)
    two = by_pair(race_splits(objective, theta, criterion, minimum_support=0.0, finalists=2, per_element=9))
    assert two == pytest.approx({pair: every[pair] for pair in two}, rel=1e-9, abs=1e-15)
    assert 0 < len(two) < len(every)
    assert max(np.bincount([element for element, _ in two])) <= 2


def test_the_race_is_won_by_the_best_of_the_screen() -> None:
    # on the first of nine chunks X1 explains the labels, on the whole sample X2: one finalist is X1, two are both
    q = np.random.default_rng(0).integers(0, 2, (36, 3)).astype(float)
    labels = np.where(np.arange(36) < 12, q[:, 1], q[:, 2]).astype(np.int64)
    store = FeatureStore([whole(initial_circuit(vtrees.right_linear(3)))], q, StrictBackend(), precision="float64")
    objective = Objective(store, labels, 2, l2=1e-3)
    chunks = [0, 1, 2, 3, 4, 5, 6, 7, 8]

    def first_choice(finalists: int) -> set[int]:
        found = race_splits(objective, objective.zeros(), minimum_support=1, chunks=chunks, finalists=finalists)
        return set(found.variable[found.score == found.score.max()].tolist())

    assert first_choice(1) == {1}
    assert first_choice(2) == {2}


@pytest.mark.parametrize("name", ["flat", "windows", "windows, root"])
def test_only_free_pairs_of_elements_with_flow_are_scored(name: str) -> None:
    objective, support = sampled(name, NUMPY, 6), 0.4
    part = PARTS[name]
    circuit = part.circuit
    q = examples(part.view.n_inputs, 6, seed=3)
    padded = np.concatenate([q, np.zeros((6, 1))], axis=1)
    flow = np.array([[brute_flows(circuit, example[position]) for position in part.view.index] for example in padded])
    means = np.mean([flow[:, a:b].mean(axis=1).sum(axis=0) for a, b in pairwise(part.view.cell_start.tolist())], axis=0)
    free = {(e, v) for e in range(circuit.n_elements) for v in free_variables(circuit, e)}
    assert set(zip(*free_pairs(circuit).tolist(), strict=True)) == free
    race = _SplitScorer(objective, objective.zeros(), "gain", support, None)
    (pairs,) = race.every_pair(race.chunks)
    kept = {pair for pair in free if means[pair[0]] >= 2 * support}
    assert set(zip(*pairs.tolist(), strict=True)) == kept
    assert len(kept) < len(free)
