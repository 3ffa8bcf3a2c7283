"""The commands that use a model: evaluate, predict, explain, inspect, convert."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score, f1_score, log_loss

from lcml import LogisticCircuit, load_model, save_model
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.splits import Split, apply_splits
from lcml.circuits.vtree import balanced
from lcml.data import load_splits
from lcml.inputs.encoders import ScaleEncoder
from tests.cli.commands import output, refused, run

NAMES = ("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)")
DIVISION = {"seed": 3, "valid_fraction": 0.25, "test_fraction": 0.4, "train_fraction": 0.5}


@pytest.fixture(scope="module")
def model() -> LogisticCircuit:
    """Petals grow from setosa to virginica: weights that say so, by hand, on a circuit with one split."""
    circuit = apply_splits(initial_circuit(balanced(4)), [Split(8, 2)]).circuit
    literals = np.zeros((3, 8))
    literals[0, [6, 7]], literals[2, [2, 3]] = 8.0, 7.0
    elements = np.random.default_rng(0).normal(scale=0.1, size=(3, circuit.n_elements))
    splits = load_splits("iris", **DIVISION)  # type: ignore[arg-type]
    low, high = load_iris().data.min(axis=0), load_iris().data.max(axis=0)
    data = {**DIVISION, "name": "iris", "target": None, "fingerprint": splits.fingerprint, "feature_names": list(NAMES)}
    return LogisticCircuit.flat(
        circuit=circuit,
        encoder=ScaleEncoder(low, high),
        classes=splits.classes,  # type: ignore[arg-type]
        element_weights=elements,
        literal_weights=literals,
        bias=np.array([-10.0, 2.0, -8.0]),
        link="softmax",
        provenance={"data": data, "seed": 3},
    )


@pytest.fixture
def model_path(model: LogisticCircuit, tmp_path: Path) -> Path:
    save_model(model, tmp_path / "iris.lcml")
    return tmp_path / "iris.lcml"


def test_a_slow_backend_is_told_of_once_and_not_on_stdout(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcml.cli.common.why_slow", lambda name: "slower" if name == "auto" else None)
    assert run("predict", model_path, "iris").stderr == "lcml: slower\n"
    assert run("predict", model_path, "iris", "--backend", "numpy").stderr == ""


def table(path: Path, rows: list[list[object]], names: tuple[str, ...] = NAMES) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def test_evaluate_measures_the_test_part_of_the_training(model: LogisticCircuit, model_path: Path) -> None:
    found = json.loads(output("evaluate", model_path, "iris", "--json", "--backend", "numpy"))
    test = load_splits("iris", **DIVISION).test  # type: ignore[arg-type]
    chances, codes = model.predict_proba(test.features), test.labels
    assert len(test) == 60
    predicted, said = chances.argmax(axis=1), chances.max(axis=1)
    surplus = [((predicted == codes) - said)[(said > b / 15) & (said <= (b + 1) / 15)].sum() for b in range(15)]
    expected = {
        "data": "iris",
        "rows": "test",
        "warning": None,
        "seed": 3,
        "n_test": 60,
        "n_variables": 4,
        "n_classes": 3,
        "n_elements": model.circuit.n_elements,
        "n_or_gates": model.circuit.n_or_gates,
        "n_parameters": 3 * (model.circuit.n_elements + 8 + 1),
        "test_accuracy": pytest.approx(accuracy_score(codes, predicted)),
        "test_f1_macro": pytest.approx(f1_score(codes, predicted, average="macro")),
        "test_log_loss": pytest.approx(log_loss(codes, chances)),
        "test_ece": pytest.approx(np.abs(surplus).sum() / 60),
        "backend": "numpy",
        "device": "cpu",
        "model_path": str(model_path),
    }
    assert {key: found[key] for key in expected} == expected
    assert set(found) - set(expected) == {"seconds", "peak_memory_mb"}
    assert found["test_accuracy"] > 0.8


def test_evaluate_measures_another_part_of_the_training(model: LogisticCircuit, model_path: Path) -> None:
    found = json.loads(output("evaluate", model_path, "iris", "--json", "--rows", "valid"))
    valid = load_splits("iris", **DIVISION).valid  # type: ignore[arg-type]
    assert found["n_valid"] == len(valid) == 11
    assert found["valid_accuracy"] == pytest.approx((model.predict(valid.features) == _names(valid.labels)).mean())
    assert "test_accuracy" not in found


def _names(codes: Any) -> Any:
    return load_iris().target_names[codes]


def test_evaluate_measures_a_whole_file(model: LogisticCircuit, model_path: Path, tmp_path: Path) -> None:
    iris = load_iris()
    rows = [[*row, name] for row, name in zip(iris.data + 0.01, iris.target_names[iris.target], strict=True)]
    path = table(tmp_path / "all.csv", rows, (*NAMES, "species"))
    found = json.loads(output("evaluate", model_path, path, "--target", "species", "--json"))
    assert found["n_test"] == 150
    assert found["test_accuracy"] == (model.predict(iris.data + 0.01) == iris.target_names[iris.target]).mean()
    assert (found["rows"], found["warning"]) == ("all", None)


def test_evaluate_says_which_rows_trained_the_model(model: LogisticCircuit, model_path: Path, tmp_path: Path) -> None:
    """A file that trained the model is measured by its test rows, though nothing but its content says so."""
    iris = load_iris()
    rows = [[*row, name] for row, name in zip(iris.data, iris.target_names[iris.target], strict=True)]
    path = table(tmp_path / "copy.csv", rows, (*NAMES, "species"))
    found = json.loads(output("evaluate", model_path, path, "--target", "species", "--json"))
    test = load_splits("iris", **DIVISION).test  # type: ignore[arg-type]
    assert (found["rows"], found["n_test"]) == ("test", 60)
    assert found["test_accuracy"] == (model.predict(test.features) == _names(test.labels)).mean()

    whole = run("evaluate", model_path, path, "--target", "species", "--rows", "all", "--json")
    found = json.loads(whole.stdout)
    assert found["n_all"] == 150
    assert found["all_accuracy"] == (model.predict(iris.data) == iris.target_names[iris.target]).mean()
    assert "45 of these 150 rows trained the model or chose it" in whole.stderr
    assert (
        "these rows trained the model"
        in run("evaluate", model_path, path, "--target", "species", "--rows", "train").stderr
    )


def test_evaluate_warns_where_the_model_does_not_say_what_trained_it(model: LogisticCircuit, tmp_path: Path) -> None:
    save_model(replace(model, provenance={}), tmp_path / "bare.lcml")
    measured = run("evaluate", tmp_path / "bare.lcml", "iris", "--json")
    assert "does not say which rows trained it" in measured.stderr
    assert json.loads(measured.stdout)["warning"] in measured.stderr.replace("lcml: ", "").strip()


def test_evaluate_prints_precision_and_recall(model: LogisticCircuit, model_path: Path, tmp_path: Path) -> None:
    """Six flowers of setosa and versicolor: what is printed for a class, counted by hand."""
    iris = load_iris()
    rows = [[*row, name] for row, name in zip(iris.data[:6], ["setosa"] * 4 + ["versicolor"] * 2, strict=True)]
    assert model.predict(iris.data[:6]).tolist() == ["setosa"] * 6
    text = output("evaluate", model_path, table(tmp_path / "few.csv", rows, (*NAMES, "label")))
    assert "66.67% of 6 examples right" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["setosa", "0.6667", "1", "4"] in lines
    assert ["versicolor", "0", "2"] in lines
    assert ["virginica", "0"] in lines


def test_predict_writes_labels_and_probabilities(model: LogisticCircuit, model_path: Path, tmp_path: Path) -> None:
    x = load_iris().data[::10]
    path = table(tmp_path / "new.csv", [list(row[::-1]) for row in x], NAMES[::-1])
    text = output("predict", model_path, path)
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["label", "probability_setosa", "probability_versicolor", "probability_virginica"]
    assert [row[0] for row in rows] == model.predict(x).tolist()
    written = np.array([row[1:] for row in rows], dtype=float)
    np.testing.assert_allclose(written, model.predict_proba(x, precision="float64"), atol=1e-6)

    told = run("predict", model_path, path, "-o", tmp_path / "out.csv")
    assert told.stdout == ""
    assert re.fullmatch(r"lcml: 15 rows in \d+\.\d s, [\d,]+ rows/s\n", told.stderr)
    assert (tmp_path / "out.csv").read_text() == text
    output("predict", model_path, path, "-o", tmp_path / "out.parquet")
    columns = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert list(columns) == header
    assert [list(map(str, row)) for row in zip(*columns.values(), strict=True)] == rows
    assert output("predict", model_path, path, "--no-proba") == "\n".join(["label", *model.predict(x)]) + "\n"


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_what_memory_does_not_hold_is_predicted_piece_by_piece(
    model: LogisticCircuit, model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    x = np.tile(load_iris().data, (20, 1))
    parquet.write_table(pyarrow.table(dict(zip(NAMES, x.T, strict=True))), tmp_path / "x.parquet")
    whole = output("predict", model_path, tmp_path / "x.parquet", "-o", tmp_path / f"whole-{name}")
    monkeypatch.setattr("lcml.data.stored.fits", lambda *_: False)
    monkeypatch.setattr("lcml.cli.predict.BLOCK", 700)
    pieces: list[int] = []
    logits = LogisticCircuit.logits

    def counted(self: LogisticCircuit, rows: Any, *rest: Any) -> Any:
        pieces.append(len(rows))
        return logits(self, rows, *rest)

    monkeypatch.setattr(LogisticCircuit, "logits", counted)
    output("predict", model_path, tmp_path / "x.parquet", "-o", tmp_path / name)
    assert (whole, pieces) == ("", [700, 700, 700, 700, 200])
    if name == "out.csv":
        assert (tmp_path / name).read_bytes() == (tmp_path / f"whole-{name}").read_bytes()
    else:
        assert parquet.read_table(tmp_path / name).equals(parquet.read_table(tmp_path / f"whole-{name}"))
        assert parquet.ParquetFile(tmp_path / name).num_row_groups == len(pieces)


def test_predict_takes_an_array_without_labels(model: LogisticCircuit, model_path: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=load_iris().data)
    assert len(output("predict", model_path, tmp_path / "x.npz").splitlines()) == 151
    assert len(output("predict", model_path, "iris").splitlines()) == 61


def test_explain_tells_the_largest_contributions(model: LogisticCircuit, model_path: Path) -> None:
    found = json.loads(output("explain", model_path, "iris", "--row", 5, "--top", 3, "--json"))
    test = load_splits("iris", **DIVISION).test  # type: ignore[arg-type]
    x = test.features[5:6]
    assert (found["row"], found["label"]) == (5, model.predict(x)[0])
    assert found["true_label"] == _names(test.labels)[5]
    assert list(found["probabilities"].values()) == pytest.approx(model.predict_proba(x, precision="float64")[0])
    assert found["logit"] == pytest.approx(model.logits(x, precision="float64").max())
    parts = [part["contribution"] for part in found["contributions"]]
    assert len(parts) == 3
    assert found["baseline"] + sum(parts) + found["rest"] == pytest.approx(found["logit"])
    of_all = model.logits(test.features)[:, list(found["probabilities"]).index(found["label"])]
    assert (found["n_averaged"], found["baseline"]) == (60, pytest.approx(of_all.mean(), abs=1e-5))
    text = output("explain", model_path, "iris", "--row", 5, "--top", 3)
    assert text.startswith(f"Row 5 of iris: {found['label']} (it is {found['true_label']}), with probability")
    for part in found["contributions"]:
        assert part["condition"] in text
        assert (part["flow"] - part["average"]) * part["weight"] == pytest.approx(part["contribution"])
    assert f"= baseline {found['baseline']:+.4f} (the average of 60 examples), and" in text
    assert f" = ({part['flow']:.3f} - {part['average']:.3f}) x {part['weight']:+.4f}  {part['condition']}\n" in text


def test_an_explanation_is_drawn(model_path: Path, tmp_path: Path) -> None:
    """As SVG, and as a page; the logit of the class less that of the other is what predict's logits say."""
    command = ("explain", model_path, "iris", "--row", 5, "--against", "virginica")
    text = output(*command, "-o", tmp_path / "why.svg")
    found = json.loads(output(*command, "-o", tmp_path / "why.html", "--json"))
    assert text.endswith(f"Drawn in {tmp_path / 'why.svg'}\n")
    assert f"logit less that of virginica {found['logit']:+.4f} = baseline" in text
    assert (found["against"], "place" in found["contributions"][0]) == ("virginica", False)
    drawn = (tmp_path / "why.svg").read_text()
    assert f">logit of {found['label']} less virginica</text>" in drawn
    assert f">{found['logit']:+.3f}</text>" in drawn
    assert found["contributions"][0]["condition"] in (tmp_path / "why.html").read_text()
    assert "expected a name that ends in .png, .svg, .html" in refused(*command, "-o", tmp_path / "why.pdf")
    assert "'rose' is no class; hold the example against another of setosa" in refused(*command[:-1], "rose")


def test_a_report_is_written(model_path: Path, tmp_path: Path) -> None:
    """On the test rows of the training's division, of which 60 * 0.4 are right as evaluate says; beside the model."""
    right = json.loads(output("evaluate", model_path, "iris", "--json"))["test_accuracy"]
    found = json.loads(output("report", model_path, "iris", "--json"))
    page = (tmp_path / "iris.html").read_text("utf-8")
    assert (found["rows"], found["n_rows"], found["report_path"]) == ("test", 60, str(tmp_path / "iris.html"))
    assert f"<b>{right:.4f}</b><span>accuracy" in page
    assert f"{found['n_bytes'] / 1e6:.2f} MB" in output("report", model_path, "iris", "-o", tmp_path / "page.html")
    result = run("report", model_path, "iris", "--rows", "all", "-o", tmp_path / "all.html")
    assert "trained the model or chose it" in result.stderr
    assert '<p class="warning">' in (tmp_path / "all.html").read_text("utf-8")
    assert "64 features, but the model was trained on 4" in refused("report", model_path, "digits")
    assert not (tmp_path / "digits.html").exists()


def test_a_single_example_is_explained_against_the_bias(model_path: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=load_iris().data[:1])
    found = json.loads(output("explain", model_path, tmp_path / "x.npz", "--json"))
    assert (found["n_averaged"], found["baseline"]) == (0, found["bias"])
    assert {part["average"] for part in found["contributions"]} == {0.0}
    text = output("explain", model_path, tmp_path / "x.npz")
    assert f"= baseline {found['bias']:+.4f} (the bias: nothing to average), and" in text


def test_an_example_is_explained_beside_one_that_contradicts_the_circuit(tmp_path: Path) -> None:
    """Of a and b the circuit admits only a xor b: the average of all examples has no logit."""
    circuit = Circuit(balanced(2), *(np.array(ids, np.int32) for ids in ([balanced(2).root], [0, 2], [0, 2], [3, 1])))
    encoder, weights = ScaleEncoder(np.zeros(2), np.ones(2)), np.array([[1.0, -2.0]])
    save_model(
        LogisticCircuit.flat(circuit, encoder, ("b", "a"), weights, None, np.array([0.5])), tmp_path / "xor.lcml"
    )
    np.savez(tmp_path / "x.npz", X=[[1.0, 0.0], [1.0, 1.0]])
    found = json.loads(output("explain", tmp_path / "xor.lcml", tmp_path / "x.npz", "--json"))
    assert (found["label"], found["logit"], found["baseline"], found["n_averaged"]) == ("a", 1.5, 0.5, 0)
    assert "contradicts the circuit" in refused("explain", tmp_path / "xor.lcml", tmp_path / "x.npz", "--row", 1)


def test_explain_needs_no_label(model_path: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=load_iris().data)
    assert json.loads(output("explain", model_path, tmp_path / "x.npz", "--json"))["true_label"] is None


def test_inspect_tells_what_is_inside(
    model: LogisticCircuit, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = json.loads(output("inspect", model_path, "--json", "--top", 2))
    n_elements = model.circuit.n_elements
    assert found["n_parameters"] == 3 * n_elements + 24 + 3
    counts = ("n_element_weights", "n_literal_weights", "n_biases")
    assert [found[name] for name in counts] == [3 * n_elements, 24, 3]
    assert (found["classes"], found["link"]) == (["setosa", "versicolor", "virginica"], "softmax")
    assert (found["encoder"], found["is_product"], found["is_tautology"]) == ("scale", True, True)
    assert found["longest_conjunction"] == 2
    assert [level["vtree_nodes"] for level in found["levels"]] == [1, 2]
    assert [level["most_variables"] for level in found["levels"]] == [4, 2]
    assert sum(level["elements"] for level in found["levels"]) == n_elements
    assert found["provenance"] == model.provenance
    weights = {part["condition"]: part["weight"] for part in found["top"]["setosa"]}
    halves = model.element_weights[0, -2:]  # of the root: petal length, not petal length
    assert weights == {"petal width (cm) near 0.1": 8.0, "petal length (cm) near 1": 8.0 + halves[1]}
    assert all(len(top) == 2 for top in found["top"].values())
    text = output("inspect", model_path)
    assert "What weighs most for virginica:" in text
    assert "seed 3" in text
    assert not re.search(r"\d\.\d{6}", text)
    assert "most_variables" in text
    monkeypatch.setattr("lcml.cli.inspect._MOST_LEVELS", 1)
    assert "most_variables" not in output("inspect", model_path)


def test_convert_goes_both_ways(model: LogisticCircuit, model_path: Path, tmp_path: Path) -> None:
    text = output("convert", model_path, "-o", tmp_path / "c.circuit", "--vtree-out", tmp_path / "v.vtree")
    assert "4 variables, 3 classes" in text
    options = ("--vtree", tmp_path / "v.vtree", "--scale", 10, "--classes", "a, b,c")
    output("convert", tmp_path / "c.circuit", *options, "-o", tmp_path / "back.lcml")
    back = load_model(tmp_path / "back.lcml")
    assert back.circuit.same_as(model.circuit)
    assert np.array_equal(back.element_weights, model.element_weights)
    assert back.classes == ("a", "b", "c")
    assert back.encoder.encode([[5.0, 0.0, 10.0, 20.0]]).tolist() == [[0.5, 0.0, 1.0, 1.0]]
    output("convert", tmp_path / "c.circuit", *options[:4], "--classes", "3,1,2", "-o", tmp_path / "back.lcml")
    assert load_model(tmp_path / "back.lcml").classes == (3, 1, 2)


MODEL_COMMANDS = (
    ("evaluate", "iris"),
    ("predict", "iris"),
    ("explain", "iris"),
    ("inspect",),
    ("convert", "-o", "x.circuit"),
)


@pytest.mark.parametrize("command", MODEL_COMMANDS, ids=lambda command: command[0])
def test_a_missing_or_damaged_model_is_refused(command: tuple[str, ...], model_path: Path, tmp_path: Path) -> None:
    name, *others = command
    assert "No such file" in refused(name, tmp_path / "none.lcml", *others)
    damaged = model_path.read_bytes()
    model_path.write_bytes(damaged[: len(damaged) // 2])
    assert "truncated or damaged" in refused(name, model_path, *others)
    assert not (tmp_path / "x.circuit").exists()


@pytest.mark.parametrize("command", ["evaluate", "predict", "explain"])
def test_data_that_do_not_fit_are_refused(command: str, model_path: Path, tmp_path: Path) -> None:
    assert "64 features, but the model was trained on 4" in refused(command, model_path, "digits")
    assert "no data set and no file 'nothing'" in refused(command, model_path, "nothing")
    narrow = table(tmp_path / "narrow.csv", [[1, 2, "setosa"]], (*NAMES[:2], "label"))
    assert "without petal length (cm), petal width (cm)" in refused(command, model_path, narrow)
    np.savez(tmp_path / "hole.npz", X=[[1, 2, 3, np.nan]], y=["setosa"])
    assert "row 0, column 3" in refused(command, model_path, tmp_path / "hole.npz")


def test_a_wide_array_is_refused_by_a_model_without_names(model: LogisticCircuit, tmp_path: Path) -> None:
    save_model(replace(model, provenance={}), tmp_path / "bare.lcml")
    np.savez(tmp_path / "wide.npz", X=np.zeros((2, 5)))
    assert "expected 4 features per example, found 5" in refused(
        "predict", tmp_path / "bare.lcml", tmp_path / "wide.npz"
    )


def test_labels_and_parts_that_do_not_fit_are_refused(model_path: Path, tmp_path: Path) -> None:
    path = table(tmp_path / "new.csv", [[1, 2, 3, 4, "orchid"]], (*NAMES, "label"))
    assert "row 0 has the label 'orchid'" in refused("evaluate", model_path, path)
    assert "which column is the target?" in refused("evaluate", model_path, table(tmp_path / "u.csv", [[1, 2, 3, 4]]))
    assert "rows: expected one of train, valid, test, all" in refused("evaluate", model_path, "iris", "--rows", "some")
    message = refused("evaluate", model_path, "wine", "--rows", "train")
    assert "is not what the model was trained on (iris), so it has no train rows" in message
    assert "there is no row 60" in refused("explain", model_path, "iris", "--row", 60)


def test_an_unwritable_output_is_refused(model_path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    place = tmp_path / "file" / "out"
    assert f"cannot write {place}.csv" in refused("predict", model_path, "iris", "-o", f"{place}.csv")
    assert "cannot write" in refused("convert", model_path, "-o", f"{place}.circuit")


def test_a_device_or_pipe_is_left_alone(model_path: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "expected a regular file or nothing there" in refused("predict", model_path, "iris", "-o", pipe)
    assert pipe.is_fifo()
    link, place = tmp_path / "link.csv", tmp_path / "place.csv"
    link.symlink_to(place)
    output("predict", model_path, "iris", "-o", link)
    assert link.is_symlink()
    assert place.read_text().startswith("label,")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="the system has no device that is always full")
@pytest.mark.parametrize("arguments", [("evaluate", "iris", "--json"), ("predict", "iris"), ("inspect",)])
def test_output_to_a_full_disk_is_an_error(arguments: tuple[str, ...], model_path: Path) -> None:
    command = [sys.executable, "-m", "lcml", arguments[0], str(model_path), *arguments[1:]]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "Error: cannot read or write the output: No space left on device\n")


def test_wrong_conversions_are_refused(model_path: Path, tmp_path: Path) -> None:
    assert "expected one .circuit, or a .psdd per class, and one .lcml file" in refused(
        "convert", model_path, "-o", tmp_path / "other.lcml"
    )
    assert "give the file of its vtree" in refused("convert", "a.circuit", "-o", tmp_path / "a.lcml")
    options = ("--vtree", "a.vtree", "-o", tmp_path / "a.lcml", "--classes", "a,,b")
    assert "classes: expected distinct names" in refused("convert", "a.circuit", *options)


@pytest.mark.parametrize(
    "arguments", [("evaluate",), ("predict", "m", "d", "--nonsense"), ("explode",), ("inspect", "m", "--top", "-1")]
)
def test_usage_errors_exit_with_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


def test_nothing_heavy_is_imported_before_a_command_runs() -> None:
    """`lcml --version` starts fast, and so does `import lcml`, from which everything public can still be had."""
    heavy = {"numpy", "scipy", "sklearn", "mlflow", "rich", "pyarrow", "matplotlib", "cupy", "onnx"}
    script = f"""
import sys
import lcml
from lcml.cli import main
sys.argv = ["lcml", "--version"]
try:
    main()
except SystemExit as end:
    assert not end.code
print(sorted({heavy!r} & set(sys.modules)))
for name in lcml.__all__:
    getattr(lcml, name)
assert set(lcml.__all__) <= set(dir(lcml))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    version, imported = done.stdout.splitlines()
    assert version.startswith("lcml ")
    assert imported == "[]"


def test_only_public_names_are_there() -> None:
    import lcml

    with pytest.raises(AttributeError, match="module 'lcml' has no attribute 'nothing'"):
        _ = lcml.nothing
