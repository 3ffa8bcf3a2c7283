"""The additive part against scikit-learn's logistic regression on the same columns, and against its own circuit."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.knots import WIDE, fit_columns
from lcml.inputs.table import RawColumn, Table
from lcml.learning.additive import AdditiveDesign, AdditiveFit, Theta, _block, _hats
from lcml.model.head import HEADS

N = 400
TEXTS = "a", "b", "c"


def table() -> Table:
    rng = np.random.default_rng(0)
    number, category = rng.normal(size=N), rng.integers(0, 3, N).astype(float)
    number[::10], category[::9] = np.nan, np.nan
    truth = rng.integers(0, 2, N).astype(float)
    columns = RawColumn("x"), RawColumn("c", "text", TEXTS), RawColumn("t", "text", ("no", "yes"))
    return Table(columns, np.stack([number, category, truth], axis=1))


@pytest.fixture(scope="module")
def encoder() -> ColumnsEncoder:
    return fit_columns(table())[0]


def labels() -> np.ndarray:
    values = np.nan_to_num(table().values[:])
    return np.asarray(np.sin(3 * values[:, 0]) + values[:, 1] + np.random.default_rng(1).normal(size=N) > 1).astype(
        np.int64
    )


@pytest.mark.parametrize("l2", [0.3, 30.0])
@pytest.mark.parametrize("most", [{}, {"MOST_DENSE": 0}, {"MOST_DENSE": 0, "MOST_TOGETHER": 0}, {"MOST_TOGETHER": 0}])
def test_it_is_ridge_logistic_regression_of_its_basis(
    encoder: ColumnsEncoder, l2: float, most: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in most.items():
        monkeypatch.setattr(f"lcml.learning.additive.{name}", value)
    weights = np.random.default_rng(2).integers(1, 3, N).astype(float)
    design = AdditiveDesign(encoder.columns, encoder.codes(table()), weights)
    problem = AdditiveFit(design, np.arange(N), labels()[:, None].astype(float), weights, HEADS["sigmoid"])
    theta = problem.minimise(l2, problem.start(), 1e-13, 10_000)
    basis = (design.hats @ design.basis).toarray()
    other = LogisticRegression(C=1 / l2, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(
        basis, labels(), weights
    )
    np.testing.assert_allclose(design.logits(theta)[:, 0], other.decision_function(basis), atol=1e-4)


@pytest.mark.parametrize("most", [1 << 21, 0])
def test_the_products_of_columns_are_summed_over_the_rows(
    encoder: ColumnsEncoder, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcml.learning.additive.MOST_DENSE", most)
    weights, rows = np.random.default_rng(2).uniform(size=N), np.arange(3, N, 2)
    design = AdditiveDesign(encoder.columns, encoder.codes(table()), weights)
    problem = AdditiveFit(design, rows, labels()[rows, None].astype(float), weights[rows], HEADS["sigmoid"])
    columns = np.column_stack([(design.hats @ design.basis).toarray()[rows], np.ones(len(rows))])
    expected = sum(w * np.outer(x, x) for w, x in zip(weights[rows], columns, strict=True))
    np.testing.assert_allclose(problem.totals()[2], expected, atol=1e-12)


def test_columns_that_are_equal_and_weights_that_are_huge_leave_it_solvable() -> None:
    values = np.tile(np.random.default_rng(8).normal(size=(N, 1)), 3)
    twice = Table(tuple(RawColumn(name) for name in "abc"), values)
    encoder, weights = fit_columns(twice)[0], np.full(N, 1e12)
    design = AdditiveDesign(encoder.columns, encoder.codes(twice), weights)
    targets = (values[:, :1] + np.random.default_rng(9).normal(size=(N, 1)) > 0).astype(float)
    problem = AdditiveFit(design, np.arange(N), targets, weights, HEADS["sigmoid"])
    p = HEADS["sigmoid"].inverse_link(np, design.logits(problem.minimise(0.1, problem.start())))
    assert p.sum() == pytest.approx(targets.sum(), rel=1e-2)  # at the optimum equal, as the bias has no penalty
    assert np.corrcoef(p[:, 0], targets[:, 0])[0, 1] > 0.5


def test_an_unknown_value_of_two_is_read_as_the_first() -> None:
    index, share = _hats(Column("t", "category", np.zeros(0), ("no", "yes")), np.array([0.0, 1.0, 2.0]))
    assert (index[:, 0].tolist(), share[:, 0].tolist()) == ([0, 1, 0], [1, 1, 1])


def test_softmax_is_multinomial_regression(encoder: ColumnsEncoder) -> None:
    codes = np.random.default_rng(3).integers(0, 3, N)
    design = AdditiveDesign(encoder.columns, encoder.codes(table()), np.ones(N))
    problem = AdditiveFit(design, np.arange(N), np.eye(3)[codes], np.ones(N), HEADS["softmax"])
    theta = problem.minimise(3.0, problem.start(), 1e-13, 10_000)
    basis = (design.hats @ design.basis).toarray()
    other = LogisticRegression(C=1 / 3.0, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(basis, codes)
    expected = other.predict_proba(basis)
    np.testing.assert_allclose(HEADS["softmax"].probabilities(design.logits(theta)), expected, atol=1e-4)


def test_the_circuits_literals_make_the_same_function(encoder: ColumnsEncoder) -> None:
    """weights . q + bias, with q the encoder's probabilities, is what the coefficients say at the knots."""
    design = AdditiveDesign(encoder.columns, encoder.codes(table()), np.ones(N))
    rng = np.random.default_rng(4)
    theta = Theta(rng.normal(size=(design.basis.shape[1], 2)), rng.normal(size=2))
    variables = design.of_variables(theta, encoder)
    q = encoder.encode(table()).astype(float)
    np.testing.assert_allclose(q @ variables.weights + variables.bias, design.logits(theta), atol=1e-5)


def test_the_function_of_a_number_is_linear_between_its_knots(encoder: ColumnsEncoder) -> None:
    design = AdditiveDesign(encoder.columns, encoder.codes(table()), np.ones(N))
    rng = np.random.default_rng(5)
    theta = Theta(rng.normal(size=(design.basis.shape[1], 1)), np.zeros(1))
    knots = encoder.columns[0].knots
    at_knots = design.values(theta)[: len(knots), 0]
    x = np.linspace(knots[0] - 1, knots[-1] + 1, 50)
    rows = Table(table().columns, np.stack([x, np.zeros(50), np.zeros(50)], axis=1))
    there = AdditiveDesign(encoder.columns, encoder.codes(rows), np.ones(50))
    given = there.hats @ design.values(theta)
    constant = given[0, 0] - at_knots[0]
    np.testing.assert_allclose(given[:, 0] - constant, np.interp(x, knots, at_knots), atol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_the_straight_line_is_standardised_on_any_scale(scale: float) -> None:
    """Its mean is 0 and its variance 1 at knots 0, 1 and 3 of masses 1, 2 and 1: mean 5/4, variance 19/16."""
    codes = scale * np.array([[0.0], [1.0], [1.0], [3.0]])
    column = Column("x", "number", scale * np.array([0.0, 1.0, 3.0]), (), False, False)
    basis = AdditiveDesign((column,), codes, np.ones(4)).basis.toarray()
    np.testing.assert_allclose(basis[:, 0], (np.array([0.0, 1.0, 3.0]) - 1.25) / np.sqrt(19 / 16))


def test_of_more_coefficients_than_examples_the_same_function_is_found() -> None:
    """In the span of the examples, as scikit-learn finds it by the columns themselves; the circuit makes it too."""
    n, n_columns = 40, WIDE + 60
    rng = np.random.default_rng(6)
    values = rng.normal(size=(n, n_columns))
    values[rng.random(values.shape) < 0.02] = np.nan
    values[:, 7] = np.arange(n) % 3
    raw = [RawColumn(f"c{j}", *(("text", TEXTS) if j == 7 else ())) for j in range(n_columns)]
    wide = Table(tuple(raw), values)
    encoder, _ = fit_columns(wide)
    labels, training = np.arange(n) % 2, np.arange(30)
    design = AdditiveDesign(encoder.columns, encoder.codes(wide), np.ones(n))
    targets, weights = labels[training, None].astype(float), np.ones(len(training))
    problem = AdditiveFit(design, training, targets, weights, HEADS["sigmoid"])
    assert design.basis.shape[1] <= n
    theta = problem.minimise(10.0, problem.start(), 1e-13, 10_000)
    columns = _block(encoder.columns, encoder.codes(wide), np.ones(n))
    basis = (columns[0] @ columns[1]).toarray()
    other = LogisticRegression(C=1 / 10.0, tol=1e-10, max_iter=10_000).fit(basis[training], labels[training])
    expected = other.decision_function(basis)
    np.testing.assert_allclose(design.logits(theta)[:, 0], expected, atol=1e-4)
    variables = design.of_variables(theta, encoder)
    q = encoder.encode(wide).astype(float)
    np.testing.assert_allclose((q @ variables.weights + variables.bias)[:, 0], expected, atol=1e-3)
