"""Learning tables: what is assembled is what was learned; interactions are found; who chooses never trains."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lcml.backend import get_backend
from lcml.inputs.knots import WIDE, fit_columns
from lcml.inputs.table import RawColumn, Table
from lcml.learning.additive import AdditiveDesign, AdditiveFit
from lcml.learning.folds import chosen_by_folds
from lcml.learning.settings import LearnSettings
from lcml.learning.solver import LBFGS
from lcml.learning.state import EncodedSet
from lcml.learning.table_learner import TableLearner
from lcml.model.head import HEADS
from lcml.model.model import LogisticCircuit

N = 600
SETTINGS = LearnSettings(trees=40, tree_depth=2, learning_rate=0.3)


def table(n: int = N, seed: int = 0) -> Table:
    """Two numbers, of which one has gaps, a category with gaps, and a truth value."""
    rng = np.random.default_rng(seed)
    values = np.stack([rng.normal(size=n), rng.normal(size=n), rng.integers(0, 3, n), rng.integers(0, 2, n)], axis=1)
    values[rng.random(n) < 0.1, 1] = np.nan
    values[rng.random(n) < 0.1, 2] = np.nan
    columns = (
        RawColumn("a"),
        RawColumn("b"),
        RawColumn("c", "text", ("x", "y", "z")),
        RawColumn("t", "text", ("n", "y")),
    )
    return Table(columns, values)


def labels(rows: Table, n_classes: int = 2) -> NDArray[np.int64]:
    """A conjunction of columns that no sum of functions of one column makes: a above 0 where c is x, else below."""
    values = rows.values[:]
    side = (values[:, 0] > 0) == (values[:, 2] == 0)
    return np.asarray(side + (n_classes > 2) * (np.nan_to_num(values[:, 1], nan=-9) < -0.5)).astype(np.int64)


def codes_of(rows: Table) -> NDArray[np.float64]:
    """Under the encoder of the training rows."""
    return fit_columns(table())[0].codes(rows)


def learned(
    settings: LearnSettings = SETTINGS, n_classes: int = 2, **options: object
) -> tuple[TableLearner, LogisticCircuit]:
    rows = table()
    encoder, _ = fit_columns(rows)
    examples = EncodedSet(encoder.codes(rows), labels(rows, n_classes))
    given = {"examples": examples, "n_train": N} | options
    learner = TableLearner(
        encoder,
        n_classes=n_classes,
        settings=settings,
        backend=get_backend("numpy"),
        **given,  # type: ignore[arg-type]
    )
    list(learner.grow())
    list(learner.refine())
    parts, parameters = learner.best()
    model = LogisticCircuit(
        learner.encoder, parts, tuple(range(n_classes)), parameters.weights, parameters.bias, learner.link
    )
    return learner, model


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_circuit_is_the_sum_of_the_additive_part_and_the_trees(n_classes: int) -> None:
    """Of the rows that trained: logits that boosting has added up, and those that the circuit computes."""
    learner, model = learned(n_classes=n_classes)
    run = learner.final
    assert run.trees
    expected = run.logits
    np.testing.assert_allclose(model.logits(table(), precision="float64"), expected, atol=1e-5)
    for part in model.parts:
        type(part.circuit).__post_init__(part.circuit, True)


@pytest.mark.parametrize("gaps", [False, True])
def test_every_category_that_a_tree_asks_for_has_its_own_variable(gaps: bool) -> None:
    """Of 120 categories, and texts too rare for one, every tenth is of the second class."""
    rng = np.random.default_rng(0)
    place = np.concatenate([np.repeat(np.arange(120), 20), np.arange(120, 140)]).astype(float)
    codes = (np.isin(place % 10, (0, 3)) & (rng.random(len(place)) < 0.9)).astype(np.int64)
    if gaps:
        place[::11] = np.nan
    texts = RawColumn("c", "text", tuple(map(str, range(140))))
    rows = Table((texts, RawColumn("x")), np.stack([place, rng.normal(size=len(place))], axis=1))
    encoder, _ = fit_columns(rows)
    learner = TableLearner(
        encoder, EncodedSet(encoder.codes(rows), codes), len(codes), 2, SETTINGS, get_backend("numpy")
    )
    list(learner.grow())
    learner._n_trees = 25  # whatever was chosen
    list(learner.refine())
    parts, parameters = learner.best()
    model = LogisticCircuit(learner.encoder, parts, (0, 1), parameters.weights, parameters.bias, learner.link)
    np.testing.assert_allclose(model.logits(rows, precision="float64"), learner.final.logits, atol=1e-5)


def test_a_conjunction_is_learned() -> None:
    _, model = learned()
    fresh = table(500, seed=9)
    right = (model.logits(fresh)[:, 0] > 0) == labels(fresh)
    assert right.mean() > 0.95
    _, additive = learned(dataclasses.replace(SETTINGS, trees=0))
    assert len(additive.parts) == 1
    assert ((additive.logits(fresh)[:, 0] > 0) == labels(fresh)).mean() < 0.75


def test_what_is_held_out_chooses_and_never_trains() -> None:
    """Other values and labels among rows held out may change the penalty chosen, but not what it makes of the rest."""
    rows, other = table(), table(seed=5)
    every, changed = rows.joined(rows), rows.joined(other)
    same = np.concatenate([labels(rows), labels(rows)])
    shuffled = np.concatenate([labels(rows), 1 - labels(other)])
    settings = dataclasses.replace(SETTINGS, trees=0)
    models = [
        learned(settings, examples=EncodedSet(codes_of(examples), codes), held_out=True)[0]
        for examples, codes in ((every, same), (changed, shuffled))
    ]
    encoder, ones = models[0].encoder, np.ones(N)
    design = AdditiveDesign(encoder.columns, encoder.codes(rows), ones)
    problem = AdditiveFit(design, np.arange(N), labels(rows)[:, None].astype(float), ones, HEADS["sigmoid"])
    for learner in models:
        theta = problem.minimise(learner.strength, problem.start())
        np.testing.assert_allclose(learner.final.theta.weights, theta.weights, atol=1e-6)


def test_an_example_of_weight_two_is_there_twice() -> None:
    rows = table()
    doubled = np.concatenate([np.arange(N), np.arange(100)])
    weights = np.where(np.arange(N) < 100, 2.0, 1.0)
    choosing = table(200, seed=3)
    settings = dataclasses.replace(SETTINGS, trees=10)
    found = []
    for select, of_rows in ((doubled, None), (np.arange(N), weights)):
        train = rows.select(select).joined(choosing)
        codes = np.concatenate([labels(rows)[select], labels(choosing)])
        every = None if of_rows is None else np.concatenate([of_rows, np.ones(200)])
        examples = EncodedSet(codes_of(train), codes, every)
        found.append(learned(settings, examples=examples, n_train=len(select), held_out=True)[1])
    fresh = table(300, seed=4)
    np.testing.assert_allclose(found[0].logits(fresh), found[1].logits(fresh), atol=1e-3)


def test_few_examples_are_divided_into_folds() -> None:
    assert chosen_by_folds(30_000, 2)
    assert not chosen_by_folds(30_001, 2)
    assert not chosen_by_folds(10_001, 3)
    learner, _ = learned(dataclasses.replace(SETTINGS, trees=0, folds=3))
    folds = learner.folds
    assert sorted(np.concatenate([choosing for _, choosing in folds]).tolist()) == list(range(N))
    for train, choosing in folds:
        assert sorted([*train.tolist(), *choosing.tolist()]) == list(range(N))
        counts = np.bincount(labels(table())[choosing])
        assert abs(counts - np.bincount(labels(table())) / 3).max() <= 1


def test_a_wide_table_is_learned() -> None:
    """Of WIDE columns more than numbers, one tells the class: the model says it for rows that it has not seen."""
    rows = np.random.default_rng(3).normal(size=(120, WIDE + 1))
    wide = Table(tuple(RawColumn(f"c{j}") for j in range(WIDE + 1)), rows)
    encoder, _ = fit_columns(wide.select(np.arange(80)))
    truth, codes = (rows[:, 9] > 0).astype(np.int64), encoder.codes(wide)
    settings = LearnSettings(trees=40, tree_depth=1, learning_rate=0.3, folds=2)
    learner = TableLearner(encoder, EncodedSet(codes[:80], truth[:80]), 80, 2, settings, get_backend("numba"))
    list(learner.grow())
    list(learner.refine())
    parts, parameters = learner.best()
    model = LogisticCircuit(learner.encoder, parts, (0, 1), parameters.weights, parameters.bias)
    assert (model.predict(wide)[80:] == truth[80:]).mean() > 0.9  # the additive part alone: 0.6


@pytest.mark.parametrize("limit", [0, 1e-9])
def test_a_time_limit_is_kept_in_every_stage(limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is over every fit ends after an iteration and no tree is grown; there is a model all the same."""
    fits: list[Any] = []

    def spy(*arguments: Any, **options: Any) -> Any:
        fits.append(LBFGS(*arguments, **options))
        return fits[-1]

    monkeypatch.setattr("lcml.learning.additive.LBFGS", spy)
    learner, model = learned(dataclasses.replace(SETTINGS, time_limit=limit))
    assert [found.n_steps for found in fits] == [1] * 6  # one penalty in five folds, and all examples
    assert learner.final.trees == []
    assert model.predict(table()).shape == (N,)
