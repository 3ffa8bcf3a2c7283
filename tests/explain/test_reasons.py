"""Sufficient reasons and counterfactuals against all worlds."""

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcml import LogisticCircuitClassifier
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import WindowView, window_vtree
from lcml.circuits.vtree import balanced
from lcml.errors import DataError, SettingsError
from lcml.explain.bounds import MarginBounds, Margins
from lcml.explain.counterfactuals import Counterfactual, NoCounterfactual, counterfactual
from lcml.explain.domains import Domain
from lcml.explain.reasons import sufficient_reason
from lcml.explain.search import Search
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import ScaleEncoder
from lcml.inputs.patches import PatchSpec, fit_patches
from lcml.inputs.table import Table, from_frame
from lcml.model.model import LogisticCircuit
from tests.explain.test_contributions import model_of, parts_model
from tests.export.models import model_on, wide_circuit
from tests.worlds import all_worlds, examples, grown, random_circuits


def keeps_everywhere(labels: Any, worlds: Any, own: Any, held: tuple[int, ...]) -> bool:
    """Whether all worlds that agree with `own` in what is held have its label, by looking at each."""
    agree = np.all(worlds[:, held] == own[list(held)], axis=1)
    return bool(np.all(labels[agree] == labels[np.all(worlds == own, axis=1)][0]))


def check_against_worlds(model: LogisticCircuit, worlds: Any, own: Any) -> None:
    """Sufficient, no input too many, and a counterfactual exactly where worlds have one, with as few changes."""
    labels = model.predict(worlds, precision="float64")
    found = sufficient_reason(model, own)
    assert found.minimal
    assert keeps_everywhere(labels, worlds, own, found.inputs)
    for left in combinations(found.inputs, max(0, len(found.inputs) - 1)):
        assert not found.inputs or not keeps_everywhere(labels, worlds, own, left)
    other = counterfactual(model, own)
    changes = (worlds != own).sum(axis=1)[labels != found.label]
    assert isinstance(other, Counterfactual) == bool(len(changes))
    if isinstance(other, Counterfactual):
        assert (other.fewest, len(other.inputs)) == (True, changes.min())
        assert model.predict([other.example], precision="float64")[0] == other.other != other.label
    else:
        assert other.proved
        assert found.inputs == ()


@pytest.mark.parametrize("n_sets", [1, 3])
@given(circuit=random_circuits(most=7), seed=st.integers(0, 99), literals=st.booleans())
@settings(max_examples=15, deadline=None)
def test_worlds_of_any_circuit(n_sets: int, circuit: Circuit, seed: int, literals: bool) -> None:
    model = model_of(circuit, n_sets, seed, literals)
    worlds = 10 * all_worlds(circuit.n_variables)
    check_against_worlds(model, worlds, worlds[seed % len(worlds)])


@pytest.mark.parametrize("share", [0.21, 0.86])
def test_worlds_under_a_threshold(share: float) -> None:
    """Decisions are those of the threshold, whichever class the example has."""
    model, worlds = model_of(grown(balanced(6), 3, 3), 1, 8), 10 * all_worlds(6)
    usual = model.predict(worlds, precision="float64")
    threshold = float(np.quantile(model.predict_proba(worlds, precision="float64")[:, 1], share))
    model = replace(model, threshold=threshold)
    labels = model.predict(worlds, precision="float64")
    assert (labels != usual).any()
    for label in model.classes:
        check_against_worlds(model, worlds, worlds[labels == label][0])


def test_worlds_of_twelve_variables() -> None:
    model = model_of(grown(balanced(12), 3, 3), 3, 8)
    worlds = 10 * all_worlds(12)
    check_against_worlds(model, worlds, worlds[1234])


@pytest.mark.parametrize("overlap", [(0, 0), (2, 1)])
def test_worlds_of_windows(overlap: tuple[int, int]) -> None:
    """A window of 2 x 2 over 3 x 3 truth values and a border, in four cells: pixels are in several windows."""
    window = WindowView((1, 3, 3), (2, 2), padding=(1, 0), grid=(2, 2), overlap=overlap)
    part = Part.full(window, initial_circuit(window_vtree(window)))
    rng = np.random.default_rng(2)
    weights, bias = rng.normal(size=(3, part.n_features)), rng.normal(size=3)
    model = LogisticCircuit(ScaleEncoder(np.zeros(9), np.ones(9)), (part,), ("a", "b", "c"), weights, bias)
    for world in (3, 200, 511):
        check_against_worlds(model, all_worlds(9), all_worlds(9)[world])


def test_bounds_hold_for_values_between() -> None:
    """Examples of probabilities: whatever the free inputs are, the bound of the margin is below the margin itself."""
    for circuit in (grown(balanced(6), 1, 3), wide_circuit()):
        model = model_on(circuit)
        x = model.encoder.inputs_at(examples(circuit.n_variables, 9, 2).clip(0.1, 0.9))
        for own in x:
            search = Search(model, own)
            free = np.arange(len(own)) % 2 == 0
            bound = search._opened([search._root(free)])[0]
            margins = search.margins.of(search.domain, np.where(free, x, own)).min()
            assert bound is None or bound <= margins + 1e-9


@pytest.mark.parametrize("root", [False, True])
def test_bounds_hold_under_cells_that_overlap(root: bool) -> None:
    window = WindowView((1, 3, 3), (2, 2), padding=(1, 0), grid=(2, 2), root=root, overlap=(2, 1))
    part = Part.full(window, initial_circuit(window_vtree(window)))
    rng = np.random.default_rng(3)
    weights, bias = rng.normal(size=(3, part.n_features)), rng.normal(size=3)
    model = LogisticCircuit(ScaleEncoder(np.zeros(9), np.ones(9)), (part,), ("a", "b", "c"), weights, bias)
    x = rng.random((200, 9))
    for own in x[:9]:
        search = Search(model, own)
        free = np.arange(9) % 2 == 0
        bound = search._opened([search._root(free)])[0]
        margins = search.margins.of(search.domain, np.where(free, x, own)).min()
        assert bound is None or bound <= margins + 1e-9
    # where all is fixed the bound is the margin itself
    margins = Margins(model, 0)
    bounds = MarginBounds(margins)
    found = x @ bounds.linear.T + bounds.rest(x, x)
    expected = model.logits(x, precision="float64") @ margins.signs.T + margins.offset
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_windows_are_bounded() -> None:
    model = parts_model()
    model = replace(model, bias=model.bias + np.array([0, 9, 0]))
    rng = np.random.default_rng(0)
    own, others = rng.random(12), rng.random((300, 12))
    found = sufficient_reason(model, own)
    assert (0 < len(found.inputs) < 12, found.minimal) == (True, False)
    held = np.isin(np.arange(12), found.inputs)
    assert set(model.predict(np.where(held, own, others), precision="float64")) == {found.label}


@pytest.mark.parametrize(("shape", "pool"), [((3, 4), 1), ((2, 6), 2)])
def test_channels_are_bounded(shape: tuple[int, int], pool: int) -> None:
    rng = np.random.default_rng(0)
    own, others = rng.random(12), rng.random((300, 12))
    names = "grey", "x+", "contrast-", "root-e-"
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(12), np.ones(12)), shape, names, pool)
    domain = Domain.of(encoder, own)
    free = np.arange(12) % 3 == 0
    low, high = domain.ranges(np.where(free, 0, own)[None], np.where(free, 1, own)[None])
    q = encoder.encode(np.where(free, others, own))
    assert (low[0] <= q + 1e-6).all()
    assert (q <= high[0] + 1e-6).all()
    assert (high[0] - low[0] > 0.1).any()


def test_patches_may_say_anything() -> None:
    """Bounds of what is encoded hold for every image; what fills the last plane up is 0."""
    rng = np.random.default_rng(0)
    own, others = rng.random(30), rng.random((300, 30))
    patches = fit_patches(PatchSpec(2, (2, 2), grid=(2, 2)), others.reshape(-1, 1, 5, 6).astype(np.float32), 0)
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(30), np.ones(30)), (5, 6), ("grey",), 1, (patches,))
    domain = Domain.of(encoder, own)
    free = np.arange(30) % 3 == 0
    low, high = domain.ranges(np.where(free, 0, own)[None], np.where(free, 1, own)[None])
    q = encoder.encode(np.where(free, others, own))
    assert low.shape == high.shape == (1, 60)
    assert (low[0] <= q + 1e-6).all()
    assert (q <= high[0] + 1e-6).all()
    assert not high[0, 46:].any()


COLUMNS = pd.DataFrame(
    {
        "age": np.tile([20.0, 30, 40, 50, 60, None], 20),
        "plan": np.repeat(["a", "b", "c"], 40),
        "rich": np.tile([0, 1, 1, 0, 1], 24),
    }
)
LABELS = np.where((COLUMNS.age < 45) & (COLUMNS.plan != "c") | (COLUMNS.rich == 1) & (COLUMNS.plan == "a"), "yes", "no")


@pytest.fixture(scope="module")
def table() -> LogisticCircuit:
    fitted = LogisticCircuitClassifier(trees=20, folds=2, tree_depth=2, backend="numpy").fit(COLUMNS, LABELS)
    return fitted.to_model()


def test_columns_against_every_row_that_there_can_be(table: LogisticCircuit) -> None:
    """Ages of every kind: whole and half years, gaps; the label at hand against all rows that agree in the columns."""
    ages = [*np.arange(15, 66, 2.5), None]
    every = from_frame(pd.DataFrame(list(product(ages, "abc", [0, 0.5, 1])), columns=["age", "plan", "rich"]))
    labels, codes = table.predict(every, precision="float64"), table.encoder.codes(every)  # type: ignore[attr-defined]
    for row in (0, 33, 100, 170):
        own = every[row : row + 1]
        assert isinstance(own, Table)
        found = sufficient_reason(table, own)
        assert found.minimal

        def agree(held: tuple[int, ...], row: int = row) -> Any:
            same = (codes == codes[row]) | (np.isnan(codes) & np.isnan(codes[row]))
            return np.all(same[:, held], axis=1)

        assert set(labels[agree(found.inputs)]) == {found.label}
        assert all(len(set(labels[agree(left)])) == 2 for left in combinations(found.inputs, len(found.inputs) - 1))
        other = counterfactual(table, own, background=every)
        assert isinstance(other, Counterfactual)
        unchanged = np.setdiff1d(np.arange(3), other.inputs)
        assert set(labels[agree(tuple(unchanged))]) == {"yes", "no"}
        fewer = combinations(range(3), 3 - len(other.inputs) + 1)
        named = ~np.isnan(codes[:, 0])
        assert all(len(set(labels[agree(held) & named]) | {found.label}) == 1 for held in fewer)
        assert table.predict(Search(table, own).domain.raw(np.array([other.example])))[0] == other.other


def test_a_counterfactual_by_hand(table: LogisticCircuit) -> None:
    """Plan c is never a yes; an age of 30 is one with the plan b."""
    own = from_frame(pd.DataFrame({"age": [30.0], "plan": ["c"], "rich": [0]}))
    found = counterfactual(table, own)
    assert isinstance(found, Counterfactual)
    assert (found.before, found.fewest) == (("plan is 'c'",), True)
    assert found.after in (("plan is 'a'",), ("plan is 'b'",))
    assert counterfactual(table, own, fixed=["age", "plan", "rich"]) == NoCounterfactual("no", True)
    with pytest.raises(SettingsError, match="fixed: there is no 'agee'; the names are age, plan, rich"):
        counterfactual(table, own, fixed=["agee"])


def test_a_share_of_other_rows() -> None:
    """x0 alone decides but where x1 and x2 are both 1, a quarter of the rows: enough for 0.6, not for 0.9."""
    circuit = initial_circuit(balanced(3))
    model = LogisticCircuit.flat(
        grown(balanced(3), 0, 0), ScaleEncoder(np.zeros(3), np.ones(3)), ("no", "yes"),
        np.zeros((1, circuit.n_elements)), np.array([[4.0, 2.0, 2.0, 0, 0, 0]]), np.array([-3.0]),
    )  # fmt: skip
    rows = np.tile(all_worlds(3), (100, 1))[np.random.default_rng(0).permutation(800)]
    found = sufficient_reason(model, [0.0, 0, 0], probability=0.6, background=rows, names=("a", "b", "c"))
    assert (found.label, found.words, found.n_rows) == ("no", ("a is 0",), 400)
    assert found.share is not None
    assert found.share.low < 0.75 < found.share.high
    assert len(sufficient_reason(model, [0.0, 0, 0], probability=0.9, background=rows).inputs) == 2
    with pytest.raises(DataError, match="expected at least 2, found 1"):
        sufficient_reason(model, [0.0, 0, 0], probability=0.9, background=rows[:1])
    with pytest.raises(SettingsError, match="probability: expected more than 0"):
        sufficient_reason(model, [0.0, 0, 0], probability=0)
