"""Split scores against brute force; planted features are found first; choosing respects its limits."""

import numpy as np
import pytest
from numpy.typing import NDArray

from lcml import vtree as vtrees
from lcml.backend import NumpyBackend
from lcml.circuit import initial_circuit
from lcml.features import FeatureStore
from lcml.objective import Objective
from lcml.scoring import Candidates, Criterion, score_splits
from lcml.selection import apply_within, choose_splits
from lcml.solver import SolverSettings, minimise

from .strict import StrictBackend
from .worlds import examples, free_variables, grown

NUMPY = NumpyBackend()
CIRCUIT = grown(vtrees.grid(2, 3), seed=4, rounds=2)


def problem(backend: object = NUMPY) -> Objective:
    q = examples(6, 40, seed=7)
    labels = np.random.default_rng(0).integers(0, 3, 40)
    store = FeatureStore(CIRCUIT, q, backend, precision="float64")  # type: ignore[arg-type]
    return Objective(store, labels, 3, l2=0.01)


def by_pair(candidates: Candidates) -> dict[tuple[int, int], float]:
    pairs = zip(candidates.element.tolist(), candidates.variable.tolist(), strict=True)
    return dict(zip(pairs, candidates.score.tolist(), strict=True))


def flows_of(objective: Objective) -> NDArray[np.float64]:
    store = objective.features
    return np.concatenate(list(store.map(lambda _, values: values[store.rows])), axis=1)[12:]


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
    store = FeatureStore(initial_circuit(vtree), q, NUMPY, precision="float64")
    return Objective(store, target.astype(np.int64), 2, l2=1e-4), q


@pytest.mark.parametrize("criterion", ["gain", "variance"])
@pytest.mark.parametrize(("rule", "relevant"), [("conjunction", {1, 4, 6}), ("xor", {0, 3})])
def test_a_planted_feature_is_found_first(criterion: Criterion, rule: str, relevant: set[int]) -> None:
    objective, _ = planted(rule)
    circuit = objective.features.circuit
    for _ in range(2 if rule == "conjunction" else 1):
        fitted = minimise(objective, objective.zeros(), SolverSettings(200)).parameters
        chosen = choose_splits(circuit, score_splits(objective, fitted, criterion, minimum_support=5), 40)
        first = max(chosen, key=lambda choice: choice.score)
        assert first.split.variable in relevant
        _, result = apply_within(circuit, chosen[:3], None)
        objective.features.grow(result)
        objective = Objective(objective.features, objective.labels, 2, l2=1e-4)
        circuit = result.circuit
    fitted = minimise(objective, objective.zeros(), SolverSettings(500, 1e-8)).parameters
    right = (objective.logits(fitted)[:, 0] > 0) == objective.labels
    assert right.mean() == 1.0


def test_scores_on_some_chunks_estimate_the_whole() -> None:
    generator = np.random.default_rng(0)
    size = NUMPY.chunk_examples
    q = generator.random((4 * size, 6))
    q[size:] = np.tile(q[:size], (3, 1))  # every chunk holds the same examples
    labels = np.tile(generator.integers(0, 2, size), 4)
    objective = Objective(FeatureStore(CIRCUIT, q, NUMPY, precision="float64"), labels, 2, l2=0.01)
    zero = objective.zeros()
    whole = by_pair(score_splits(objective, zero, minimum_support=100))
    part = by_pair(score_splits(objective, zero, minimum_support=100, chunks=[2]))
    assert whole.keys() == part.keys()
    for pair, score in whole.items():
        assert 4 * part[pair] == pytest.approx(score, rel=1e-9)


def test_scoring_stays_on_the_device() -> None:
    host, device = problem(), problem(StrictBackend())
    zero = host.zeros()
    assert by_pair(score_splits(device, zero)) == pytest.approx(by_pair(score_splits(host, zero)))


def test_nothing_to_split_over_one_variable() -> None:
    store = FeatureStore(initial_circuit(vtrees.balanced(1)), np.array([[0.1], [0.9]]), NUMPY)
    objective = Objective(store, np.array([0, 1]), 2)
    assert not len(score_splits(objective, objective.zeros()).score)


def test_choice_respects_its_room_and_skips_equal_features() -> None:
    circuit = initial_circuit(vtrees.balanced(8))
    # elements of flow 1: splitting any of them on X0 gives the same feature; the lowest of them costs least
    root = circuit.n_elements - 1
    flow_one = np.flatnonzero(circuit.flow_class == circuit.flow_class[root])
    candidates = Candidates(flow_one, np.zeros(len(flow_one), dtype=np.int64), np.ones(len(flow_one)))
    within = [e for e in flow_one if 0 in circuit.vtree.scope(circuit.or_vtree[circuit.elem_or[e]])]
    candidates = Candidates(np.array(within), candidates.variable[: len(within)], candidates.score[: len(within)])
    chosen = choose_splits(circuit, candidates, 1000)
    assert [choice.split.element for choice in chosen] == [min(within)]
    assert not choose_splits(circuit, candidates, 0)


def test_limit_on_elements_holds() -> None:
    objective, _ = planted("conjunction")
    circuit = objective.features.circuit
    chosen = choose_splits(circuit, score_splits(objective, objective.zeros(), minimum_support=1), 1000)
    for limit in (circuit.n_elements, circuit.n_elements + 3, circuit.n_elements + 10):
        kept, result = apply_within(circuit, chosen, limit)
        assert result.circuit.n_elements <= limit
        assert kept == chosen[: len(kept)]
