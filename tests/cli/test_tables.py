"""Tables through the commands and the classifier: every source of one table, bad ones, and what is said of them."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet

from lcml import LogisticCircuitClassifier, load_model
from lcml.circuits.views import IdentityView
from lcml.data import load_examples, load_splits
from lcml.errors import DataError, SettingsError
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.knots import WIDE, fit_columns
from lcml.inputs.table import RawColumn, Table, from_frame
from lcml.learning.state import EncodedSet
from lcml.runs.places import choose_vtree
from lcml.runs.pyfunc import _load_pyfunc
from tests.cli.commands import output, refused, run

N = 240
RNG = np.random.default_rng(0)
FEW: dict[str, Any] = {"trees": 3, "folds": 2, "backend": "numpy"}
QUICK = ("--trees", 3, "--folds", 2, "--no-tracking", "--backend", "numpy", "--quiet")


def customers() -> pd.DataFrame:
    """Of every kind of column, with gaps; the label is told by the contract and the age."""
    age = RNG.integers(18, 80, N).astype(float)
    frame = pd.DataFrame(
        {
            "age": age,
            "income": RNG.normal(3000, 800, N).round(2),
            "contract": RNG.choice(["monthly", "yearly", "two\nyears"], N),
            "since": pd.to_datetime("2020-01-01") + pd.to_timedelta(RNG.integers(0, 2000, N), "D"),
            "smoker": RNG.choice([True, False], N),
            "note": [f"customer {i}" for i in range(N)],
            "label": "stays",
        }
    )
    frame.loc[(frame.contract == "monthly") & (age < 45), "label"] = "leaves"
    frame.loc[::9, "age"] = None
    frame.loc[::11, "contract"] = None
    return frame


FRAME = customers()
ROWS = FRAME.drop(columns="label")


@pytest.fixture(scope="module")
def fitted() -> LogisticCircuitClassifier:
    return LogisticCircuitClassifier(**FEW).fit(ROWS, FRAME.label)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A model, its data, and what training said."""
    folder = tmp_path_factory.mktemp("table")
    FRAME.to_csv(folder / "customers.csv", index=False)
    done = run("train", folder / "customers.csv", "-o", folder / "model.lcml", *QUICK)
    assert done.exit_code == 0, done.output
    return folder / "model.lcml", folder / "customers.csv", done.output


@pytest.mark.parametrize("values", [("01", "02", "A4"), ("True", "False", "maybe"), ("1.50", "2.0", "x")])
def test_categories_are_read_as_in_training_whatever_else_a_file_holds(tmp_path: Path, values: tuple[str, ...]) -> None:
    """The first tells the class; of rows without the last a reader that looks at them alone makes numbers."""
    frame = pd.DataFrame({"code": values * 80, "x": RNG.normal(size=240), "label": ["yes", "no", "no"] * 80})
    frame.to_csv(tmp_path / "all.csv", index=False)
    few = frame[frame.code != values[-1]]
    few.to_csv(tmp_path / "few.csv", index=False)
    assert run("train", tmp_path / "all.csv", "-o", tmp_path / "m.lcml", *QUICK).exit_code == 0
    found = []
    for name in ("all", "few"):
        told = run("predict", tmp_path / "m.lcml", tmp_path / f"{name}.csv", "-o", tmp_path / "p.csv")
        assert told.exit_code == 0, told.output
        found.append(pd.read_csv(tmp_path / "p.csv"))
    expected = found[0][(frame.code != values[-1]).to_numpy()].reset_index(drop=True)
    pd.testing.assert_frame_equal(found[1], expected)
    assert set(found[1].iloc[:, 0]) == {"yes", "no"}


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA])
def test_a_label_that_is_missing_is_named(gap: Any) -> None:
    labels = FRAME.label.astype(object)
    labels[[7, 9]] = gap
    with pytest.raises(DataError, match="y: example 7 has no label, nor have 1 others; drop what has none"):
        LogisticCircuitClassifier(**FEW).fit(ROWS, labels)
    with pytest.raises(DataError, match="eval_set: example 7 has no label"):
        LogisticCircuitClassifier(**FEW).fit(ROWS, FRAME.label, eval_set=(ROWS, labels))


def test_every_source_gives_the_same_encoder_and_probabilities(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    FRAME.to_csv(tmp_path / "a.tsv.gz", index=False, sep="\t")
    whole = pa.Table.from_pandas(FRAME)
    (tmp_path / "parts").mkdir()
    for part, (first, n) in enumerate(((0, 7), (7, 100), (107, N))):
        parquet.write_table(whole.slice(first, n), tmp_path / "parts" / f"{part}.parquet", row_group_size=50)
    coded = pa.table({"contract": whole["contract"].dictionary_encode(), "age": whole["age"]})
    expected, notes = fit_columns(from_frame(ROWS))
    assert notes == ("column 'note' has another text in every row; it is left out",)
    sources: list[Any] = [load_examples(tmp_path / name).features for name in ("a.csv", "a.tsv.gz", "parts")]
    stored = load_splits(tmp_path / "parts", memory_budget=0, valid_fraction=0, test_fraction=0).train.features
    sources += [stored, from_frame(whole.drop_columns("label"))]
    try:
        import polars
    except ImportError:
        pass
    else:
        sources.append(from_frame(polars.from_arrow(whole.drop_columns("label"))))
    for table in sources:
        found, _ = fit_columns(table)
        assert repr([vars(column) for column in found.columns]) == repr([vars(column) for column in expected.columns])
        assert_array_equal(found.encode(table), expected.encode(from_frame(ROWS)))
    assert from_frame(coded).columns[0].kind == "text"


def test_training_says_the_kinds_and_what_is_left_out(trained: tuple[Path, Path, str]) -> None:
    model, data, said = trained
    assert "Number     age, income\nCategory   contract, smoker\nDate       since\n" in said
    assert "lcml: column 'note' has another text in every row; it is left out" in said
    shown = output("inspect", model)
    assert " since      date       False   2020-01-" in shown.replace("\u2502", " ")
    columns = {column["column"]: column for column in json.loads(output("inspect", model, "--json"))["columns"]}
    assert (columns["smoker"]["kind"], columns["smoker"]["gaps"]) == ("category", False)
    assert sorted(columns["smoker"]["values"]) == ["false", "true"]
    assert columns["contract"]["gaps"]
    assert set(columns["contract"]["values"]) == {"'monthly'", "'yearly'", r"'two\nyears'"}
    told = output("explain", model, data, "--row", 1)
    assert "age is " in told
    assert "since is 202" in told
    assert " in part " not in told


def test_columns_in_any_order_beside_others_and_missing_ones(trained: tuple[Path, Path, str], tmp_path: Path) -> None:
    model, data, _ = trained
    expected = output("predict", model, data)
    shuffled = FRAME[["since", "label", "contract", "smoker", "income", "age"]].assign(extra=1)
    shuffled.to_csv(tmp_path / "shuffled.csv", index=False)
    assert output("predict", model, tmp_path / "shuffled.csv") == expected
    FRAME.drop(columns="age").to_csv(tmp_path / "less.csv", index=False)
    assert "without age; give the columns trained on" in refused("predict", model, tmp_path / "less.csv")
    assert "without age" in refused("evaluate", model, tmp_path / "less.csv")
    assert "F1" in output("evaluate", model, tmp_path / "shuffled.csv", "--rows", "all")
    loaded = load_model(model)
    assert_array_equal(loaded.predict(from_frame(shuffled)), loaded.predict(from_frame(FRAME)))
    with pytest.raises(DataError, match="the column 'age' is not there; give the columns trained on, in any order"):
        loaded.predict(from_frame(FRAME.drop(columns="age")))


def test_values_that_training_never_had(trained: tuple[Path, Path, str], tmp_path: Path) -> None:
    """An unknown category and gaps anywhere get an answer; a text among numbers one sentence."""
    model, _, _ = trained
    FRAME.head(3).assign(contract="weekly", since=None, smoker=None, age=None).to_csv(tmp_path / "new.csv", index=False)
    assert len(output("predict", model, tmp_path / "new.csv").splitlines()) == 4
    mixed = FRAME.head(3).astype({"income": object})
    mixed.loc[1, "income"] = "much"
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    assert "column 'income' holds 'much'; expected a number, or nothing" in refused(
        "predict", model, tmp_path / "mixed.csv"
    )


def test_tables_that_teach_nothing(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1] * 20, "b": None, "label": [0, 1] * 10}).to_csv(tmp_path / "same.csv", index=False)
    said = refused("train", tmp_path / "same.csv", "-o", tmp_path / "m.lcml", *QUICK)
    assert "no column tells examples apart: column 'a' has one value; it is left out; column 'b' is empty" in said
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    for column, sentence in {
        "contract=number": "column 'contract' holds ",
        "size=number": "column 'size' is not there; the columns are age",
        "age": "column: expected NAME=KIND, such as age=number, found 'age'",
        "contract=ordinal:yearly<never": "is not in ordinal:yearly<never; give all of its values, the lowest first",
    }.items():
        assert sentence in refused("train", tmp_path / "a.csv", "--column", column, "-o", tmp_path / "m.lcml", *QUICK)
    scaled = refused("train", tmp_path / "a.csv", "--encoder", "scale", "-o", tmp_path / "m.lcml", *QUICK)
    assert "column 'contract' is not numeric (text: " in scaled


def test_line_breaks_an_empty_column_and_one_row_of_a_class(tmp_path: Path) -> None:
    """In one text file, from training to prediction; an empty column is left out, a category may have several lines."""
    notes, kinds = np.resize(['one\nline, "quoted"', "two\r\nlines"], 40), np.resize(["no", "yes"], 40)
    frame = pd.DataFrame({"a": np.arange(40.0), "note": notes, "empty": None, "label": kinds})
    frame.loc[40] = [99.0, notes[0], None, "once"]
    data, path = tmp_path / "a.csv", tmp_path / "m.lcml"
    frame.to_csv(data, index=False)
    single = refused("train", data, "-o", path, *QUICK)
    assert "class 'once' has 1 example(s), but 3 are needed" in single
    frame = pd.concat([frame, frame.tail(1), frame.tail(1)])
    frame.to_csv(data, index=False)
    done = run("train", data, "-o", path, *QUICK)
    assert done.exit_code == 0, done.output
    assert "column 'empty' is empty; it is left out" in done.output
    model = load_model(path)
    assert isinstance(model.encoder, ColumnsEncoder)
    assert model.encoder.columns[1].categories == (notes[0], notes[1])
    assert output("predict", path, data, "--no-proba").split()[1:] == frame.label.tolist()
    assert "one\\nline" in output("inspect", path)


def test_one_row_of_a_class_and_mixed_types(fitted: LogisticCircuitClassifier) -> None:
    labels = FRAME.label.copy()
    labels.iloc[0] = "returns"
    rows = ROWS.assign(code=[i % 3 if i % 2 else str(i % 3) for i in range(N)])
    model = LogisticCircuitClassifier(**FEW).fit(rows, labels)
    assert model.classes_.tolist() == ["leaves", "returns", "stays"]
    assert [column.kind for column in _encoder(model).columns if column.name == "code"] == ["category"]
    with pytest.raises(DataError, match="the labels are all of one class"):
        LogisticCircuitClassifier(**FEW).fit(ROWS, ["same"] * N)
    with pytest.raises(DataError, match="column 'age' holds 'old'; expected a number"):
        fitted.predict(
            ROWS.astype({"age": object}).replace({"age": {20.0: "old", 21.0: "old"}}).assign(age="old").head(1)
        )


def _encoder(model: LogisticCircuitClassifier) -> ColumnsEncoder:
    encoder = model.model_.encoder
    assert isinstance(encoder, ColumnsEncoder)
    return encoder


def test_the_classifier_is_saved_loaded_and_exported(fitted: LogisticCircuitClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model.lcml")
    loaded = LogisticCircuitClassifier.load(tmp_path / "model.lcml")
    for one in (loaded, pickle.loads(pickle.dumps(loaded))):
        assert_allclose(one.predict_proba(ROWS), fitted.predict_proba(ROWS), atol=1e-12)
        assert_array_equal(one.feature_names_in_, fitted.feature_names_in_)
        assert (one.classes_.tolist(), one.n_features_in_) == (["leaves", "stays"], 6)
    assert loaded.get_params() == {**fitted.get_params(), "backend": "auto"}
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).feature_importances_, fitted.feature_importances_)
    with pytest.raises(AttributeError, match="a loaded classifier has no training examples"):
        _ = loaded.feature_importances_
    assert_array_equal(fitted.to_model().predict(from_frame(ROWS)), fitted.predict(ROWS))
    report = fitted.to_onnx(tmp_path / "model.onnx")
    assert (report.path, report.inputs) == (tmp_path / "model.onnx", "columns")


def test_class_weights() -> None:
    """They are example weights; balanced, every class has the same sum."""
    n_leaves = int((FRAME.label == "leaves").sum())
    weight = {"leaves": N / (2 * n_leaves), "stays": N / (2 * (N - n_leaves))}
    rows = ROWS[["contract", "smoker"]]  # of which weights do not choose knots
    balanced = LogisticCircuitClassifier(**FEW, class_weight="balanced").fit(rows, FRAME.label)
    by_class = LogisticCircuitClassifier(**FEW, class_weight=weight).fit(rows, FRAME.label)
    weighted = LogisticCircuitClassifier(**FEW).fit(rows, FRAME.label, sample_weight=FRAME.label.map(weight))
    for other in (by_class, weighted):
        assert_allclose(other.predict_proba(rows), balanced.predict_proba(rows), atol=1e-6)
    plain = LogisticCircuitClassifier(**FEW).fit(rows, FRAME.label)
    assert (balanced.predict_proba(rows)[:, 0] - plain.predict_proba(rows)[:, 0]).mean() > 0.05
    with pytest.raises(SettingsError, match="class_weight: 'left' is none of the classes in y"):
        LogisticCircuitClassifier(**FEW, class_weight={"left": 2}).fit(ROWS, FRAME.label)
    with pytest.raises(SettingsError, match="class_weight: expected finite numbers above 0"):
        LogisticCircuitClassifier(**FEW, class_weight={"leaves": -1}).fit(ROWS, FRAME.label)
    with pytest.raises(SettingsError, match=r"class_weight: expected .* one of balanced, found 'fair'"):
        LogisticCircuitClassifier(**FEW, class_weight="fair").fit(ROWS, FRAME.label)  # type: ignore[arg-type]


def test_a_run_weighs_classes(tmp_path: Path) -> None:
    """Of features that say nothing every class is as probable as the other, though one is four times as frequent."""
    frame = pd.DataFrame({"a": np.arange(200) % 2, "label": (np.arange(200) // 2 % 5 == 0).astype(int)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    for structure in ("trees", "splits"):
        options = ("--class-weight", "balanced", "--structure", structure, "--rounds", 1, *QUICK)
        assert run("train", tmp_path / "a.csv", "-o", tmp_path / "m.lcml", *options).exit_code == 0
        logits = load_model(tmp_path / "m.lcml").logits(from_frame(frame))
        assert np.abs(logits[:, -1] - (logits[:, 0] if logits.shape[1] > 1 else 0)).max() < 0.1


def test_a_vtree_or_a_view_asks_for_splits(tmp_path: Path) -> None:
    FRAME[["age", "income", "label"]].to_csv(tmp_path / "a.csv", index=False)
    one_round = ("--rounds", 1, "--no-tracking", "--backend", "numpy", "--quiet", "-o", tmp_path / "m.lcml")
    for chosen in (("--vtree", "balanced"), ("--view", "whole"), ("--structure", "splits")):
        output("train", tmp_path / "a.csv", *chosen, *one_round)
        (part,) = load_model(tmp_path / "m.lcml").parts
        assert isinstance(part.view, IdentityView)
        assert part.circuit.n_variables == load_model(tmp_path / "m.lcml").encoder.n_outputs
    assert "the vtree grid" in refused("train", tmp_path / "a.csv", "--vtree", "grid", *one_round)
    assert refused("train", tmp_path / "a.csv", "--vtree", "balanced", "--structure", "trees", *one_round) == (
        "Error: structure: trees have no vtree; leave it out, or choose splits"
    )
    said = refused("train", "iris", "--encoder", "scale", "--structure", "trees", *one_round)
    assert said == "Error: structure: trees are for the encoder columns; give it a table, or choose splits"
    with pytest.raises(SettingsError, match="structure: trees have no view"):
        LogisticCircuitClassifier(structure="trees", view=("whole",)).fit(ROWS[["age"]], FRAME.label)


@pytest.mark.parametrize("structure", ["trees", "splits"])
def test_a_threshold_is_chosen_stored_and_kept_to(tmp_path: Path, structure: str) -> None:
    """One in five is of the second class, with no probability above 1/2: macro F1 asks for a lower threshold."""
    rng, y = np.random.default_rng(0), np.arange(300) % 5 == 0
    frame = pd.DataFrame({"a": rng.normal(size=300) + 0.7 * y, "label": np.where(y, "yes", "no")})
    data, path = tmp_path / "rare.csv", tmp_path / "m.lcml"
    frame.to_csv(data, index=False)
    given = ("train", data, "--structure", structure, "--rounds", 1, *QUICK, "--json")
    plain = json.loads(output(*given, "-o", tmp_path / "plain.lcml"))
    told = json.loads(output(*given, "-o", path, "--threshold", "f1-macro"))
    model, table = load_model(path), from_frame(frame)
    assert told["threshold"] == model.threshold < 0.4 < plain["threshold"] == 0.5
    assert plain["valid_f1_macro"] < told["valid_f1_macro"]
    expected = np.where(model.predict_proba(table)[:, 1] > model.threshold, "yes", "no")
    assert 0 < (expected == "yes").sum() < len(y)
    assert_array_equal(model.predict(table), expected)
    measured = json.loads(output("evaluate", path, data, "--rows", "all", "--json"))
    assert measured["all_accuracy"] == (expected == frame.label).mean()
    assert output("predict", path, data, "--no-proba").split()[1:] == expected.tolist()
    assert_array_equal(_load_pyfunc(str(path)).predict(frame)["label"], expected)
    assert f"It predicts `yes` where its probability is above {model.threshold:.4g}." in output("card", path)
    again = LogisticCircuitClassifier.load(path)
    assert again.get_params()["threshold"] == "f1-macro"
    assert_array_equal(again.predict(frame[["a"]]), expected)


def test_thresholds_that_cannot_be(tmp_path: Path) -> None:
    three = pd.DataFrame({"a": np.arange(60), "label": np.arange(60) % 3})
    three.to_csv(tmp_path / "three.csv", index=False)
    message = refused("train", tmp_path / "three.csv", "--threshold", "accuracy", *QUICK)
    assert "threshold: only two classes have one, these data have 3; leave it out" in message
    metrics = "one of accuracy, balanced-accuracy, f1, f1-macro or a finite number above 0 and below 1"
    for wrong in ("1.5", "nan", "auc"):
        assert f"threshold: expected {metrics}, found" in refused("train", "digits", "--threshold", wrong, *QUICK)
    (tmp_path / "t.toml").write_text("threshold = 0.25\n")
    rows = three[three.label < 2]
    rows.to_csv(tmp_path / "two.csv", index=False)
    given = ("--config", tmp_path / "t.toml", "-o", tmp_path / "m.lcml")
    assert run("train", tmp_path / "two.csv", *given, *QUICK).exit_code == 0
    assert load_model(tmp_path / "m.lcml").threshold == 0.25
    fitted = LogisticCircuitClassifier(**FEW, threshold=0.25).fit(rows[["a"]], rows.label)
    assert_array_equal(fitted.predict(rows[["a"]]), (fitted.predict_proba(rows[["a"]])[:, 1] > 0.25).astype(int))


def test_wide_tables() -> None:
    """Above WIDE columns a number has one interval, and the vtree is balanced without a look at pairs of variables."""
    n_columns = WIDE + 1
    values = np.random.default_rng(0).normal(size=(12, n_columns))
    table = Table(tuple(RawColumn(f"c{j}") for j in range(n_columns)), values)
    encoder, _ = fit_columns(table)
    low, high = values.min(axis=0), values.max(axis=0)
    assert_allclose(encoder.encode(table), (values - low) / (high - low), atol=1e-6)
    labels = np.arange(12) % 2
    vtree = choose_vtree("auto", None, EncodedSet(encoder.encode(table), labels), blocks=encoder.blocks)
    assert vtree.height.max() == 13


def test_ten_thousand_categories() -> None:
    frame = pd.DataFrame({"id": [f"c{i % 10_000}" for i in range(60_000)], "often": ["a", "b"] * 30_000})
    frame.loc[:50_000:3, "id"] = "frequent"
    encoder, _ = fit_columns(from_frame(frame))
    column = encoder.columns[0]
    assert (column.categories[0], column.shared, column.n_outputs) == ("frequent", True, 254)
    q = encoder.encode(from_frame(frame))
    assert_array_equal(q[:, :254].sum(axis=1), 1)


@pytest.mark.parametrize("seed", ["0", "1", "2", "3", "4", "5"])
def test_what_the_encoder_does_not_take_is_told_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: str
) -> None:
    """Wherever the row goes, to training, validation or test: by its place in the file, and nothing is left."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{i},{'1e400' if i == 7 else i % 5},{i % 2}\n" for i in range(20)]
    (tmp_path / "odd.csv").write_text("a,b,label\n" + "".join(lines))
    message = refused("train", "odd.csv", "--encoder", "scale", "--no-tracking", "--seed", seed)
    assert message.startswith("Error: odd.csv, examples: row 7, column 1 ('b') is inf; features must be finite")
    assert [path.name for path in tmp_path.iterdir()] == ["odd.csv"]


def test_texts_of_an_eval_set_are_found_by_what_they_say() -> None:
    """In another order, a frame numbers its texts otherwise: what it chooses is the same."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": rng.choice(["red", "green", "blue"], 300), "x": rng.normal(size=300)})
    labels = ((frame["colour"] == "red") ^ (rng.random(300) < 0.1)).to_numpy()
    train, choosing = frame[:200], frame[200:]
    models = [
        LogisticCircuitClassifier(trees=5)
        .fit(train, labels[:200], eval_set=(choosing[::way], labels[200:][::way]))
        .model_
        for way in (1, -1)
    ]
    assert_array_equal(models[0].weights, models[1].weights)
    measured = LogisticCircuitClassifier(trees=0).fit(
        train, labels[:200], eval_set=(choosing[::-1], labels[200:][::-1])
    )
    logits = measured.model_.logits(from_frame(choosing))[:, 0]
    assert measured.history_[-1].valid_accuracy == pytest.approx(((logits > 0) == labels[200:]).mean(), abs=0.03)
