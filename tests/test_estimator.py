"""The classifier among scikit-learn's own tools."""

import dataclasses
import inspect
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from lcml import LogisticCircuitClassifier, load_model, save_model
from lcml.backend.machine import cores
from lcml.backend.threads import _Shared
from lcml.circuits.views import IdentityView, WindowView
from lcml.circuits.vtree import balanced
from lcml.data import Examples
from lcml.data.labels import code_labels
from lcml.errors import DataError, SettingsError
from lcml.learning.learner import Learner
from lcml.learning.objective import Objective
from lcml.learning.settings import LearnSettings
from lcml.runs.config import TrainConfig
from lcml.runs.parameters import most_threads
from lcml.runs.records import RoundRecord
from lcml.runs.weighting import divided, merged

FAST: dict[str, Any] = {"rounds": 2, "l2_path": (1e-3,), "backend": "numpy"}


@pytest.mark.parametrize("policy", ["prior", "expected"])
def test_what_is_missing_is_told_by_weighted_examples(policy: str) -> None:
    generator = np.random.default_rng(0)
    x, times = generator.random((60, 3)).round(1), generator.integers(1, 4, 60)
    y = (x.sum(axis=1) > 1.5).astype(int)
    settings: dict[str, Any] = {**FAST, "valid_fraction": 0, "encoder": "divide", "divisor": 1.0, "missing": policy}
    weighted = LogisticCircuitClassifier(**settings).fit(x, y, sample_weight=times)
    repeated = LogisticCircuitClassifier(**settings).fit(np.repeat(x, times, axis=0), np.repeat(y, times))
    told = weighted.to_model().missing
    assert told is not None
    np.testing.assert_allclose(told.means, np.average(x, axis=0, weights=times), rtol=1e-6)
    gaps = np.array([[np.nan, 0.5, 0.5], [0.1, np.nan, np.nan]])
    np.testing.assert_allclose(weighted.predict_proba(gaps), repeated.predict_proba(gaps), rtol=1e-9)


def test_a_boolean_threshold_counts_equal_examples() -> None:
    x = np.repeat([0.0, 0.3, 1.0], [800, 100, 100])[:, None]
    classifier = LogisticCircuitClassifier(**FAST, encoder="boolean", valid_fraction=0)
    threshold = classifier.fit(x, np.arange(1000) % 2).to_model().encoder.state()["threshold"]
    assert threshold == pytest.approx(0.13 + 0.05 * np.sqrt(0.109 - 0.13**2), rel=1e-6)  # E x = 0.13, E x^2 = 0.109


def test_mini_batches_of_sorted_examples_are_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = []
    original = Objective.value_and_gradient

    def watched(self: Objective, parameters: Any, chunks: Any = None) -> Any:
        if chunks is not None:
            size = self.features.backend.chunk_examples
            shares.append(self.labels[chunks[0] * size : (chunks[0] + 1) * size].mean())
        return original(self, parameters, chunks)

    monkeypatch.setattr(Objective, "value_and_gradient", watched)
    x, y = np.random.default_rng(0).random((8000, 3)), np.repeat([0, 1], 4000)
    settings = {**FAST, "solver": "minibatch", "rounds": 0, "refit": True, "valid_fraction": 0.5}
    LogisticCircuitClassifier(**settings).fit(x, y)
    assert min(shares) > 0.1
    assert max(shares) < 0.9


def test_scikit_learn_checks() -> None:
    """All of check_estimator but what scikit-learn itself skips."""
    classifier = LogisticCircuitClassifier(**{**FAST, "rounds": 1}, round_iterations=10, final_iterations=20)
    results = check_estimator(classifier, on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) > 40


def test_parameters_are_those_of_learning_with_their_defaults() -> None:
    parameters = LogisticCircuitClassifier().get_params()
    settings = dataclasses.asdict(LearnSettings())
    assert {name: parameters[name] for name in settings} == settings
    others = {
        "class_weight",
        "encoder",
        "divisor",
        "vtree",
        "image_shape",
        "channels",
        "patches",
        "pool",
        "augment",
        "view",
        "valid_fraction",
        "backend",
        "missing",
    }
    assert set(parameters) - set(settings) == others | {"columns", "n_jobs", "random_state", "verbose", "warm_start"}
    of_run = TrainConfig().as_dict() | {"channels": (), "patches": (), "view": ()}
    assert {name: parameters[name] for name in others} == {name: of_run[name] for name in others}


def test_an_unknown_parameter_is_seen_by_the_type_checker_and_at_once() -> None:
    """mypy would complain of an ignored error that is none."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'round'"):
        LogisticCircuitClassifier(round=3)  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match="rounds: expected a whole number of at least 0, found 'few'"):
        LogisticCircuitClassifier(rounds="few").fit(*iris())  # type: ignore[arg-type]


def test_every_parameter_is_described_in_the_docstring() -> None:
    text = inspect.getdoc(LogisticCircuitClassifier)
    assert text is not None
    for name in LogisticCircuitClassifier().get_params():
        assert re.search(rf"^{name} : .*, default .*\n    \S", text, re.MULTILINE), name
    assert "depth : a whole number of at least 0 and at most 64, default 0" in text


def test_it_learns_digits() -> None:
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0, stratify=y)
    classifier = LogisticCircuitClassifier(image_shape=(8, 8), **FAST).fit(x_train, y_train)
    assert classifier.score(x_test, y_test) > 0.95  # scikit-learn's LogisticRegression reaches 0.956 here
    assert classifier.model_.classes == tuple(range(10))
    np.testing.assert_array_equal(classifier.model_.predict(x_test), classifier.predict(x_test))


def test_two_classes_with_names_and_their_decision() -> None:
    data = load_breast_cancer()
    y = data.target_names[data.target]
    for link in ("sigmoid", "softmax"):
        classifier = LogisticCircuitClassifier(link=link, **FAST).fit(data.data, y)
        assert classifier.classes_.tolist() == ["benign", "malignant"]
        decision, chance = classifier.decision_function(data.data), classifier.predict_proba(data.data)
        assert decision.shape == (len(y),)
        np.testing.assert_array_equal(classifier.predict(data.data) == "malignant", decision > 0)
        np.testing.assert_allclose(chance[:, 1], 1 / (1 + np.exp(-decision)), atol=1e-12)


def test_pipelines_searches_and_clones() -> None:
    x, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), LogisticCircuitClassifier(**FAST))
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.9
    search = GridSearchCV(pipeline, {"logisticcircuitclassifier__encoder": ["boolean", "scale"]}, cv=2).fit(x, y)
    assert search.best_params_ == {"logisticcircuitclassifier__encoder": "scale"}
    assert search.best_estimator_.score(x, y) > 0.9
    again = clone(search.best_estimator_)
    assert not hasattr(again[-1], "model_")


def test_the_same_seed_gives_the_same_model_and_pickles() -> None:
    x, y = load_iris(return_X_y=True)
    first, second = (LogisticCircuitClassifier(**FAST).fit(x, y) for _ in range(2))
    expected = first.predict_proba(x)
    np.testing.assert_array_equal(second.predict_proba(x), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict_proba(x), expected)
    before = LogisticCircuitClassifier()
    before.__setstate__(dict(vars(first)))  # what was pickled once, with a LogisticCircuit inside
    np.testing.assert_array_equal(before.predict_proba(x), expected)


def test_its_model_is_one_to_save(tmp_path: Any) -> None:
    import pandas

    x, y = load_iris(return_X_y=True)
    frame = pandas.DataFrame(x, columns=["sepal l", "sepal w", "petal l", "petal w"])
    classifier = LogisticCircuitClassifier(vtree=balanced(4), **FAST).fit(frame, y)
    save_model(classifier.model_, tmp_path / "iris.lcml")
    loaded = load_model(tmp_path / "iris.lcml")
    np.testing.assert_array_equal(loaded.predict(x), classifier.predict(frame))
    assert loaded.provenance["data"]["feature_names"] == ["sepal l", "sepal w", "petal l", "petal w"]


def test_weights_of_zero_leave_examples_out() -> None:
    x, y = load_iris(return_X_y=True)
    kept = np.arange(len(y)) % 3 != 0
    weighted = LogisticCircuitClassifier(**FAST).fit(x, y, sample_weight=kept.astype(float))
    without = LogisticCircuitClassifier(**FAST).fit(x[kept], y[kept], sample_weight=np.ones(kept.sum()))
    np.testing.assert_array_equal(weighted.predict_proba(x), without.predict_proba(x))


@pytest.mark.parametrize("spread", [0, 1])
def test_weights_are_repeated_examples(spread: int) -> None:
    """To the bit where no examples are set aside, at default settings and in whatever order the repeated ones stand."""
    x, y = load_breast_cancer(return_X_y=True)
    times = np.random.default_rng(0).integers(2 - spread, 3 + spread, len(y))
    settings: dict[str, Any] = {"valid_fraction": 0, "rounds": 2}
    weighted = LogisticCircuitClassifier(**settings).fit(x, y, sample_weight=times)
    rows = np.concatenate([np.arange(len(y)), np.repeat(np.arange(len(y)), times - 1)])
    repeated = LogisticCircuitClassifier(**settings).fit(x[rows], y[rows])
    np.testing.assert_array_equal(weighted.model_.weights, repeated.model_.weights)
    np.testing.assert_array_equal(weighted.predict_proba(x), repeated.predict_proba(x))
    plain = LogisticCircuitClassifier(**settings).fit(x, y)
    assert np.abs(plain.predict_proba(x) - weighted.predict_proba(x)).max() > 1e-6


def test_weights_count_in_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    x, once = np.unique(load_iris().data, axis=0, return_index=True)
    y, given = load_iris().target[once], list[Any]()

    def spy(places: Any, train: Any, valid: Any, *rest: Any, **others: Any) -> Learner:
        given.extend((train, valid))
        return Learner(places, train, valid, *rest, **others)

    monkeypatch.setattr("lcml.runs.fitting.Learner", spy)
    weight = 1.0 + x[:, 0]
    settings: dict[str, Any] = {**FAST, "encoder": "divide", "divisor": 10.0}
    LogisticCircuitClassifier(**settings).fit(x, y, sample_weight=weight)
    for examples in given:
        np.testing.assert_allclose(examples.weights, 1 + 10 * examples.values[:, 0])


def test_weights_count() -> None:
    """One binary feature that says nothing: the probability of a class is its share of the weights."""
    x, y = np.tile([0.0, 1.0, 0.0, 1.0], 50)[:, None] * [1, 1], np.repeat([0, 1], 100)
    classifier = LogisticCircuitClassifier(valid_fraction=0, rounds=0, l2=0, l2_path=(0.0,), backend="numpy")
    classifier.fit(x, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(classifier.predict_proba(x)[:, 1], 0.75, atol=1e-3)


@pytest.mark.parametrize("n", [40, 200])
def test_examples_that_repeat_fit_and_choose(n: int) -> None:
    """All four worlds of an exclusive or are learned, though there is nothing else to choose by."""
    x = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (n // 4, 1))
    y = x[:, 0] != x[:, 1]
    assert LogisticCircuitClassifier(rounds=3, minimum_support=1.0).fit(x, y).score(x, y) == 1


def test_what_repeats_often_is_divided_by_its_share() -> None:
    """At a fraction of 1/10 ten equal examples give nine to fit by and one to choose by, twenty others two."""
    features = np.repeat(np.arange(21.0), [10, *[1] * 20])[:, None]
    repeated = Examples(features, np.repeat([0, 1], [10, 20]))
    examples, weights, rest, aside = divided(*merged(repeated, None), fraction=0.1, seed=0)
    assert weights is not None
    often = np.flatnonzero(examples.features[:, 0] == 0)
    np.testing.assert_allclose(sorted(weights[often]), [1, 9])
    assert weights[np.intersect1d(often, rest)].tolist() == [9]
    assert weights[np.intersect1d(often, aside)].tolist() == [1]
    assert (weights[rest].sum(), weights[aside].sum()) == (9 + 18, 1 + 2)
    assert sorted([*rest.tolist(), *aside.tolist()]) == list(range(22))


def test_a_refit_uses_what_was_set_aside() -> None:
    """The same weights as those of a classifier that sets nothing aside: both are at the optimum."""
    x, y = load_iris(return_X_y=True)
    weight = 1.0 + np.arange(len(y)) % 2
    settings: dict[str, Any] = {
        "rounds": 0,
        "l2": 1e-2,
        "l2_path": (1e-2,),
        "final_iterations": 500,
        "precision": "float64",
    }
    settings |= {"encoder": "divide", "divisor": 8.0, "vtree": "balanced", "backend": "numpy"}
    apart = LogisticCircuitClassifier(**settings).fit(x, y, sample_weight=weight)
    refitted = LogisticCircuitClassifier(**settings, refit=True).fit(x, y, sample_weight=weight)
    every = LogisticCircuitClassifier(**settings, valid_fraction=0).fit(x, y, sample_weight=weight)
    np.testing.assert_allclose(refitted.predict_proba(x), every.predict_proba(x), atol=1e-4)
    assert np.abs(apart.predict_proba(x) - every.predict_proba(x)).max() > 1e-3


def iris() -> tuple[NDArray[Any], NDArray[Any]]:
    x, y = load_iris(return_X_y=True)
    return x, y


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        (
            {"valid_fraction": 1.0},
            SettingsError,
            "valid_fraction: expected a finite number of at least 0 and below 1, found 1.0",
        ),
        (
            {"image_shape": (2, 3)},
            SettingsError,
            "image_shape: expected sizes whose product is 4, the number of features of X, found 2x3",
        ),
        ({"vtree": balanced(5)}, SettingsError, "vtree: expected one over the 4 variables, found one over 5"),
        ({"vtree": "grid"}, DataError, "the vtree grid"),
        ({"view": ["window=3"]}, SettingsError, "view 'window=3': .*no image shape"),
        ({"view": ["window=3"], "image_shape": (1, 4)}, SettingsError, "view 'window=3': window of 3 rows"),
        ({"channels": ["x+"]}, SettingsError, "channels: x. are made of images"),
        ({"pool": 2}, SettingsError, "pool: averages channels, but none were asked for"),
        ({"pool": 0}, SettingsError, "pool: "),
        ({"augment": "copies=2"}, SettingsError, "augment: only images and sequences can be distorted"),
        ({"augment": "copies"}, SettingsError, "augment 'copies': found 'copies'"),
        ({"encoder": "divide"}, SettingsError, "divisor"),
        ({"rounds": -1}, SettingsError, "rounds: expected a whole number of at least 0, found -1"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        LogisticCircuitClassifier(**{**FAST, **parameters}).fit(*iris())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), r"expected 150 finite numbers of 0 or more, found an array of shape \(3,\)"),
        (np.full(150, np.nan), "finite numbers"),
        (-np.ones(150), "0 or more"),
        (np.zeros(150), "all weights are zero"),
        (np.arange(150) < 50, "all of one class"),
    ],
)
def test_wrong_weights(weights: NDArray[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        LogisticCircuitClassifier(**FAST).fit(*iris(), sample_weight=weights)


def test_windows_channels_and_augmentation() -> None:
    """On two classes of digits: the model has the parts asked for, and weighted examples count in every copy."""
    x, y = load_digits(n_class=2, return_X_y=True)
    options = {"image_shape": (8, 8), "channels": ("grey", "x+"), "view": ("window=4,grid=2,root,apart", "whole")}
    classifier = LogisticCircuitClassifier(**{**FAST, **options}, augment="copies=1,shift=1,cross")
    classifier.fit(x[::2], y[::2], sample_weight=np.where(y[::2] == 0, 1.0, 2.0))
    model = classifier.model_
    assert [part.view for part in model.parts] == [
        WindowView((2, 8, 8), (4, 4), grid=(2, 2), root=True, channels=(0,)),
        WindowView((2, 8, 8), (4, 4), grid=(2, 2), root=True, channels=(1,)),
        IdentityView(128),
    ]
    assert classifier.score(x[1::2], y[1::2]) > 0.95
    assert model.provenance["settings"]["view"] == ["window=4,grid=2,root,apart", "whole"]
    assert clone(classifier).get_params()["channels"] == ("grey", "x+")


def test_patches_are_drawn_by_the_seed() -> None:
    x, y = load_digits(n_class=2, return_X_y=True)
    options: dict[str, Any] = {**FAST, "image_shape": (8, 8), "channels": "grey", "view": "patches"}
    options |= {"patches": "count=5,size=3,grid=2,overlap=1"}
    first, again, other = (
        LogisticCircuitClassifier(**options, random_state=seed).fit(x[::2], y[::2]) for seed in (0, 0, 1)
    )
    assert first.score(x[1::2], y[1::2]) > 0.95
    np.testing.assert_array_equal(first.predict_proba(x), again.predict_proba(x))
    assert np.abs(first.predict_proba(x) - other.predict_proba(x)).max() > 1e-3
    assert first.model_.provenance["settings"]["patches"] == ["count=5,size=3,grid=2,overlap=1"]


def test_one_text_stands_for_a_list_of_one() -> None:
    x, y = load_digits(n_class=2, return_X_y=True)
    options: dict[str, Any] = {**FAST, "image_shape": [8, 8]}
    one = LogisticCircuitClassifier(**options, view="window=4,grid=2", channels="grey").fit(x, y)
    several = LogisticCircuitClassifier(**options, view=["window=4,grid=2"], channels=["grey"]).fit(x, y)
    np.testing.assert_array_equal(one.predict_proba(x), several.predict_proba(x))


def test_numbers_of_numpy_are_plain_in_the_model(tmp_path: Any) -> None:
    settings: dict[str, Any] = {"rounds": np.int64(1), "l2": np.float32(0.5), "l2_path": np.array([1e-3, 1e-2])}
    settings |= {"refit": np.bool_(True)}
    model = LogisticCircuitClassifier(**settings, backend="numpy").fit(*iris()).model_
    save_model(model, tmp_path / "iris.lcml")
    stored = load_model(tmp_path / "iris.lcml").provenance["settings"]
    assert (stored["rounds"], stored["l2"], stored["l2_path"], stored["refit"]) == (1, 0.5, [1e-3, 1e-2], True)


def drawn_aside(**parameters: Any) -> list[float]:
    """Which examples were set aside shows in what validation measured."""
    classifier = LogisticCircuitClassifier(**{**FAST, "rounds": 0, "valid_fraction": 0.5}, **parameters)
    return [record.valid_loss for record in classifier.fit(*iris()).history_]


def test_random_state_and_its_other_name() -> None:
    assert drawn_aside() == drawn_aside(random_state=0) == drawn_aside(seed=0)
    assert drawn_aside(random_state=3) == drawn_aside(seed=3) == drawn_aside(random_state=np.int32(3), seed=3)
    assert drawn_aside(random_state=3) != drawn_aside()
    for make in (np.random.RandomState, np.random.default_rng):
        first, second = make(5), make(5)
        assert drawn_aside(random_state=first) == drawn_aside(random_state=second)
        assert drawn_aside(random_state=first) != drawn_aside(random_state=make(5))  # it has been drawn from
    assert drawn_aside(seed=None) != drawn_aside(random_state=None)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"random_state": 1, "seed": 2}, "random_state and seed are one setting, found 1 and 2; give one"),
        ({"random_state": 1, "seed": None}, "random_state and seed are one setting, found 1 and None"),
        (
            {"random_state": 0.5},
            "random_state: expected a whole number of at least 0 or a RandomState or a Generator, f",
        ),
        ({"seed": -1}, "seed: expected a whole number of at least 0"),
        ({"rounds": 2.0}, "rounds: expected a whole number of at least 0, found 2.0"),
        ({"l2": 10**400}, r"l2: expected a finite number of at least 0 that fits 64 bits, found 10+\[...\]0+$"),
        ({"backend": None}, "backend: expected one of auto, numpy, numba, cupy, found None"),
        ({"view": [3]}, r"view: expected a list, each text, found \[3\]"),
    ],
)
def test_values_of_another_type(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        LogisticCircuitClassifier(**{**FAST, **parameters}).fit(*iris())


def test_history_best_round_and_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    classifier = LogisticCircuitClassifier(**FAST, refit=True, verbose=1).fit(*iris())
    phases = [record.phase for record in classifier.history_]
    assert phases == ["grow"] * (len(phases) - 2) + ["refine", "refit"]
    assert classifier.best_round_ in {record.round for record in classifier.history_ if record.improved}
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["grow 0", "grow 1"]
    assert len(lines) == len(phases)
    assert lines[0].endswith(f"validation accuracy {classifier.history_[0].valid_accuracy:.2%}")


def test_a_callback_ends_learning() -> None:
    seen: list[RoundRecord] = []

    def stop_after_two(record: RoundRecord) -> bool:
        seen.append(record)
        return len(seen) == 2

    classifier = LogisticCircuitClassifier(backend="numpy", growth=0.1).fit(*iris(), callback=stop_after_two)
    assert [record.round for record in seen] == [0, 1]
    assert classifier.history_ == seen
    assert classifier.score(*iris()) > 0.8


def test_an_eval_set_chooses_and_does_not_train() -> None:
    """Each validation figure of the history is that of the examples given, and all of X trains, none of them."""
    x, y = iris()
    order = np.random.default_rng(0).permutation(len(y))
    rest, aside = order[:100], order[100:]
    settings: dict[str, Any] = {**FAST, "l2_path": (1e-2,), "final_iterations": 300, "rounds": 0, "refit": True}
    chosen = LogisticCircuitClassifier(**settings).fit(x[rest], y[rest], eval_set=[(x[aside], y[aside])])
    assert chosen.history_[-1].phase == "refine"
    assert max(record.valid_accuracy for record in chosen.history_) == chosen.score(x[aside], y[aside])
    alone = LogisticCircuitClassifier(**settings, valid_fraction=0).fit(x[rest], y[rest])
    assert chosen.history_[0].train_loss == pytest.approx(alone.history_[0].train_loss, rel=1e-6)
    for wrong, message in [((x, y + 1), "label np.int64.3. is none of those in y"), ((x,), "expected a pair")]:
        with pytest.raises(DataError, match=f"eval_set: .*{message}"):
            LogisticCircuitClassifier(**settings).fit(x, y, eval_set=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_features_give_the_model_of_dense_ones(kind: Any) -> None:
    x, y = load_digits(n_class=3, return_X_y=True)
    dense = LogisticCircuitClassifier(**FAST, image_shape=(8, 8), augment="copies=1,shift=1").fit(x, y)
    sparse = LogisticCircuitClassifier(**FAST, image_shape=(8, 8), augment="copies=1,shift=1").fit(kind(x), y)
    np.testing.assert_array_equal(sparse.predict_proba(kind(x)), dense.predict_proba(x))
    np.testing.assert_array_equal(sparse.feature_importances_, dense.feature_importances_)


def test_repeated_sparse_examples_are_those_of_their_weights() -> None:
    x, y = load_digits(n_class=3, return_X_y=True)
    twice = 1 + np.arange(len(y)) % 2
    weighted, repeated = (LogisticCircuitClassifier(**FAST, valid_fraction=0) for _ in range(2))
    weighted.fit(scipy.sparse.csr_array(x), y, sample_weight=twice)
    repeated.fit(scipy.sparse.csr_array(np.repeat(x, twice, axis=0)), np.repeat(y, twice))
    np.testing.assert_array_equal(weighted.predict_proba(x), repeated.predict_proba(x))


def test_importances_are_those_of_the_features_that_decide() -> None:
    """y is the exclusive or of the first two of four binary features, so the logit depends on these alone."""
    x = np.random.default_rng(0).integers(0, 2, (2000, 4)).astype(float)
    y = (x[:, 0] != x[:, 1]).astype(int)
    classifier = LogisticCircuitClassifier(rounds=4, vtree="balanced", backend="numpy").fit(x, y)
    shares = classifier.feature_importances_
    assert classifier.score(x, y) == 1
    assert shares.sum() == pytest.approx(1)
    assert shares[:2].min() > 0.3
    assert shares[2:].max() < 0.1
    assert not hasattr(LogisticCircuitClassifier(), "feature_importances_")


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([True, False] * 10), ("false", "true")),
        (np.array([1.0, 2.0] * 10), (1, 2)),
        (np.array(["1", "2"] * 10), (1, 2)),
        (np.array(["01", "1"] * 10), ("01", "1")),
        (np.array(["no", "yes"] * 10), ("no", "yes")),
    ],
)
def test_classes_are_spelled_as_a_files_are(y: NDArray[Any], classes: tuple[object, ...]) -> None:
    """As `lcml train` spells them, so that a model of one takes the data of the other."""
    fitted = LogisticCircuitClassifier(rounds=0, backend="numpy").fit(np.arange(40.0).reshape(20, 2), y)
    assert fitted.model_.classes == classes == code_labels(y, "y")[0]


def test_n_jobs_are_threads_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many functions of a map are under way at once as are allowed, in fit and in predict; the model is the same."""
    under_way, most, lock = 0, 0, threading.Lock()
    pool = ThreadPoolExecutor(4)

    class Counting:
        def submit(self, function: Any, item: Any) -> Any:
            nonlocal under_way, most
            with lock:
                under_way += 1
                most = max(most, under_way)
            future = pool.submit(function, item)
            future.add_done_callback(done)
            return future

    def done(_: Any) -> None:
        nonlocal under_way
        with lock:
            under_way -= 1

    monkeypatch.setattr(_Shared, "pool", lambda self: Counting())
    x, y = (array.repeat(20, axis=0) for array in iris())
    x = x + np.random.default_rng(0).normal(0, 1e-3, x.shape)
    found = []
    for n_jobs, allowed in ((1, 0), (2, 2)):
        most = 0
        classifier = LogisticCircuitClassifier(**FAST, n_jobs=n_jobs).fit(x, y)
        found.append(classifier.predict_proba(x))
        assert most == allowed
    np.testing.assert_array_equal(found[0], found[1])
    pool.shutdown()
    with pytest.raises(SettingsError, match="n_jobs: expected a number of threads, or one below 0"):
        LogisticCircuitClassifier(**FAST, n_jobs=0).fit(x, y)
    assert [most_threads(n) for n in (None, 3, -1, -10_000)] == [None, 3, cores(), 1]


def test_a_warm_start_goes_on() -> None:
    """Two rounds, and on the same data two more: the splits of the first two are kept, and so are the weights."""
    x, y = load_breast_cancer(return_X_y=True)
    settings: dict[str, Any] = {**FAST, "growth": 0.1, "patience": 9, "warm_start": True}
    classifier = LogisticCircuitClassifier(**settings).fit(x, y)
    first, history = classifier.__dict__["_warm"].state, classifier.history_
    classifier.set_params(rounds=4).fit(x, y)
    assert [record.round for record in classifier.history_ if record.phase == "grow"] == [2, 3, 4]
    assert classifier.__dict__["_warm"].state.history[:2] == first.history
    assert classifier.history_[0].train_loss < history[-2].train_loss  # it was fitted once more
    again = pickle.loads(pickle.dumps(classifier)).fit(x, y)
    assert [record.round for record in again.history_ if record.phase == "grow"] == [0, 1, 2, 3, 4]
    with pytest.raises(SettingsError, match="warm_start: other features and classes than in the last fit; fit a clone"):
        classifier.fit(x[:, 1:], y + 1)
    with pytest.raises(SettingsError, match="warm_start: other depth and link than in the last fit"):
        classifier.set_params(link="softmax", depth=1).fit(x, y)
    cold = LogisticCircuitClassifier(**{**settings, "warm_start": False}).fit(x, y)
    assert [record.round for record in cold.fit(x, y).history_ if record.phase == "grow"] == [0, 1, 2]


def test_a_warm_start_goes_on_beside_a_column_that_is_left_out() -> None:
    import pandas

    x, y = iris()
    frame = pandas.DataFrame(x, columns=list("abcd")).assign(constant=1.0)
    settings: dict[str, Any] = {**FAST, "structure": "splits", "patience": 9, "warm_start": True}
    classifier = LogisticCircuitClassifier(**settings).fit(frame, y)
    done = max(record.round for record in classifier.history_)
    classifier.set_params(rounds=done + 2).fit(frame, y)
    assert min(record.round for record in classifier.history_ if record.phase == "grow") == done


def test_trees_have_no_warm_start() -> None:
    import pandas

    frame = pandas.DataFrame(iris()[0], columns=list("abcd"))
    with pytest.raises(SettingsError, match="warm_start: trees are chosen all together, by examples"):
        LogisticCircuitClassifier(warm_start=True).fit(frame, iris()[1])
