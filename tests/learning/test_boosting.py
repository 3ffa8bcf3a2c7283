"""Boosted trees against exhaustive search and against sums worked out row by row."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from lcml.backend import get_backend
from lcml.inputs.column import Column
from lcml.learning.boosting import LEAST_BRANCH, PRIOR_ROWS, BoostedRows, Booster, ColumnBins, cut_column, leaves

N = 120


def columns() -> list[ColumnBins]:
    return [ColumnBins(np.array([0.5, 1.5, 2.5]), 5), ColumnBins(np.zeros(0), 4, 2)]


def bins() -> NDArray[np.uint8]:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(0, 5, N), rng.integers(0, 4, N)]).astype(np.uint8)


def booster(backend: str, n_sets: int = 1, depth: int = 2) -> tuple[BoostedRows, Booster]:
    rng = np.random.default_rng(1)
    residual, curvature = rng.normal(size=(N, n_sets)), rng.uniform(0.1, 0.3, (N, n_sets))
    weights = rng.integers(1, 3, N).astype(float)
    rows = BoostedRows(
        columns(),
        bins(),
        weights,
        lambda logits: (residual, curvature),
        np.zeros((N, n_sets)),
        get_backend(backend),  # type: ignore[arg-type]
    )
    return rows, boosted(rows, depth)


def boosted(rows: BoostedRows, depth: int) -> Booster:
    return Booster(rows.columns, rows.sums, rows.add, depth, 0.1, rows.backend)


def answers(column: int, question: tuple[int, bool]) -> NDArray[np.bool_]:
    """Yes or no, row by row: above a cut, a gap where the question says so; of a category, whether it is the one."""
    cut, gap_above = question
    of_column = bins()[column]
    if columns()[column].is_category:
        return np.asarray(of_column == cut)
    return np.asarray(np.where(of_column == 4, gap_above, of_column > cut))


def leaf_l2(given: BoostedRows) -> float:
    """That of PRIOR_ROWS average examples."""
    _, curvature = given.residuals(given.logits)
    return PRIOR_ROWS * float((curvature * given.weights[:, None]).sum() / given.weights.sum() / curvature.shape[1])


def best_gain(rows: NDArray[np.bool_], column: int, given: BoostedRows) -> float:
    """The most that any question gains in a context."""
    residual, curvature = given.residuals(given.logits)
    r, h = residual * given.weights[:, None], curvature * given.weights[:, None]

    l2 = leaf_l2(given)

    def score(which: NDArray[np.bool_]) -> float:
        return float((r[which].sum(axis=0) ** 2 / (h[which].sum(axis=0) + l2)).sum())

    gains = [0.0]
    for question in itertools.product(range(columns()[column].n_bins - 1), (False, True)):
        yes = answers(column, question)
        sides = rows & yes, rows & ~yes
        if all(given.weights[side].sum() >= LEAST_BRANCH for side in sides):
            gains.append(sum(map(score, sides)) - score(rows))
    return max(gains)


@pytest.mark.parametrize("n_sets", [1, 3])
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_every_level_asks_what_gains_most(backend: str, n_sets: int) -> None:
    given, trees = booster(backend, n_sets)
    tree = trees.add_tree()
    contexts = [np.ones(N, bool)]
    for level in tree.levels:
        gains = [sum(best_gain(rows, column, given) for rows in contexts) for column in range(2)]
        assert gains[level.column] == pytest.approx(max(gains))
        below = []
        for a, rows in enumerate(contexts):
            yes = answers(level.column, (int(level.cut[a]), bool(level.gap_above[a]))) & level.asks[a]
            below += [rows & ~yes, rows & yes]
        contexts = below
    residual, curvature = given.residuals(given.logits)
    for leaf, rows in enumerate(contexts):
        w = given.weights[rows][:, None]
        expected = -0.1 * (residual[rows] * w).sum(axis=0) / ((curvature[rows] * w).sum(axis=0) + leaf_l2(given))
        np.testing.assert_allclose(tree.values[leaf], expected, atol=1e-12)
        assert (leaves(tree, columns(), bins())[rows] == leaf).all()
        np.testing.assert_allclose(given.logits[rows], np.tile(expected, (int(rows.sum()), 1)), atol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_every_level_has_the_sums_of_all_its_rows(backend: str) -> None:
    given, _ = booster(backend, 2, 3)
    residual, curvature = given.residuals(given.logits)
    statistics = np.column_stack([residual, curvature, np.ones(N)]) * given.weights[:, None]
    levels = boosted(booster(backend, 2, 3)[0], 3).add_tree().levels
    for depth in (0, 1, 2, 2, 3, 1):  # in turn, again, and out of turn
        node = np.zeros(N, int)
        for level in levels[:depth]:
            yes = [answers(level.column, (int(level.cut[a]), bool(level.gap_above[a]))) for a in range(len(level.cut))]
            node = 2 * node + (np.stack(yes)[node, np.arange(N)] & level.asks[node])
        _, _, found = given.sums(levels[:depth], np.arange(2))
        for column, a, b in itertools.product(range(2), range(1 << depth), range(5)):
            rows = (node == a) & (bins()[column] == b)
            np.testing.assert_allclose(found[column, a, b], statistics[rows].sum(axis=0), atol=1e-12)


def test_cuts_lie_between_values_and_gaps_have_a_bin_of_their_own() -> None:
    codes = np.array([1.0, 2.0, np.nan, 4.0, 2.0])
    cut = cut_column(Column("x", "number", np.array([1.0, 4.0]), gaps=True), codes, np.ones(5))
    assert cut.steps.tolist() == [1.5, 3.0]
    assert cut.of(codes).tolist() == [0, 1, 3, 2, 1]
    category = cut_column(Column("c", "category", np.zeros(0), ("a", "b"), gaps=True), codes, np.ones(5))
    assert category.of(np.array([0.0, 1.0, 2.0, np.nan])).tolist() == [0, 1, 3, 2]  # 3: no category, never asked for
    two = cut_column(Column("c", "category", np.zeros(0), ("a", "b")), codes, np.ones(5))
    assert two.of(np.array([0.0, 1.0, 2.0])).tolist() == [0, 1, 0]  # unknown: as the first, which has no variable
    shared = cut_column(Column("c", "category", np.zeros(0), ("a", "b"), shared=True), codes, np.ones(5))
    assert shared.of(np.array([0.0, 1.0, 2.0])).tolist() == [0, 1, 2]


def test_values_whose_sum_is_no_float_are_cut() -> None:
    codes = np.array([1e308, 1.5e308])
    assert cut_column(Column("x", "number", codes), codes, np.ones(2)).steps.tolist() == [1.25e308]


def test_infinite_values_are_beyond_all_cuts() -> None:
    codes = np.array([-np.inf, 1.0, 2.0, np.inf])
    cut = cut_column(Column("x", "number", np.array([1.0, 2.0])), codes, np.ones(4))
    assert cut.steps.tolist() == [1.5]
    assert cut.of(codes).tolist() == [0, 0, 1, 1]


def test_many_values_are_cut_evenly() -> None:
    values = np.random.default_rng(0).exponential(size=5000)
    cut = cut_column(Column("x", "number", np.array([0.0, 1.0])), values, np.ones(5000))
    counts = np.bincount(cut.of(values), minlength=cut.n_bins)[:-1]
    assert len(cut.steps) == 63
    assert counts.max() <= 1.1 * 5000 / 63


def test_trees_of_a_wide_table_look_at_the_columns_that_gain_most_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a tree of one question over all columns says, one column after another left out."""
    rng = np.random.default_rng(2)
    truth, residual = rng.integers(0, 2, (30, N)).astype(np.uint8), rng.normal(size=(N, 1))
    two = ColumnBins(np.array([0.5]), 3)

    def made(bins: NDArray[np.uint8]) -> Booster:
        residuals = lambda logits: (residual, np.full((N, 1), 0.25))  # noqa: E731
        zeros, backend = np.zeros((N, 1)), get_backend("numpy")
        return boosted(BoostedRows([two] * len(bins), bins, np.ones(N), residuals, zeros, backend), 1)

    expected: list[int] = []
    left = list(range(30))
    while len(expected) < 4:
        best = left[made(truth[left]).add_tree().levels[0].column]
        expected.append(best)
        left.remove(best)
    monkeypatch.setattr("lcml.learning.boosting.WIDE", 20)
    monkeypatch.setattr("lcml.learning.boosting.MOST_COLUMNS", 4)
    wide = made(truth)
    assert wide.add_tree().levels[0].column == expected[0]
    assert wide._looked_at.tolist() == sorted(expected)
