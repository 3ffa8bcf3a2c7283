"""What is run, what the paper claims, and how both are shown."""

import dataclasses
import json
import math
from itertools import pairwise
from pathlib import Path

import pytest

from lcml.errors import FormatError, SettingsError
from lcml.runs.recipes import recipe_names
from lcml.runs.reproduce.baselines import SETTINGS
from lcml.runs.reproduce.claims import ACCURACY, PARAMETERS
from lcml.runs.reproduce.experiments import MODELS, Row, rows_of
from lcml.runs.reproduce.results import RowResult, check_same, load_row, row_path, save_row
from lcml.runs.reproduce.tables import markdown, table_cells, write_picture, write_tables

RESULT = RowResult(
    name="mnist-100-flat",
    quick=False,
    settings={"train_fraction": 1.0, "l2_path": [0.1, 0.2], "backend": "auto", "divisor": None},
    fingerprint="abc",
    n_train=54000,
    n_valid=6000,
    n_test=10000,
    n_parameters=162660,
    n_stored=None,
    valid_accuracy=0.97,
    test_accuracy=0.97618,
    n_iterations=7,
    converged=True,
    seconds=331.0,
    seed=0,
    run_id=None,
    machine={"lcml": "1"},
)
FLAT = Row("mnist", 1.0, "flat", "mnist-flat")
SVM = Row("fashion-mnist", 0.1, "svm")
RESULTS = {
    FLAT: RESULT,
    SVM: dataclasses.replace(RESULT, name="fashion-10-svm", n_parameters=None, n_stored=78400, test_accuracy=0.5),
}


def test_the_rows_of_the_tables() -> None:
    names = [row.name for row in rows_of([1], recipe_names())]
    models = ["logistic-regression", "forest", "flat", "flat-boolean", "164k", "mlp-3", "svm", "cnn", "mlp-5", "best"]
    assert names == [f"{data}-100-{model}" for model in models for data in ("mnist", "fashion")]
    assert [row.fraction for row in rows_of([3], [])] == [0.02] * 12 + [0.1] * 12 + [1.0] * 12  # the quick ones first
    assert len({row.name for row in rows_of([1, 2, 3], ["mnist-flat", "fashion-flat", "flat-few"])}) == 3 * 2 * 8
    assert not [row for row in rows_of([2], recipe_names()) if row.model in ("svm", "forest")]


def test_recipes_are_run_where_they_are_there() -> None:
    circuits = {
        row.name: row.recipe for row in rows_of([3], ["mnist-164k", "mnist-best", "fashion-2pct"]) if row.recipe
    }
    assert circuits == {
        "mnist-100-164k": "mnist-164k",
        "mnist-100-best": "mnist-best",
        "fashion-2-best": "fashion-2pct",
    }
    few = {row.recipe for row in rows_of([3], recipe_names()) if row.model == "flat" and row.fraction < 1}
    assert few == {"flat-few"}


_WITHOUT_RESNET = [model for model in ACCURACY if model != "ResNet"]


def test_the_claims() -> None:
    assert set(PARAMETERS) <= set(ACCURACY) == {model.claim for model in MODELS.values()}
    # what the paper's text says of its tables
    best = {
        setting: max(_WITHOUT_RESNET, key=lambda model: ACCURACY[model].get(setting, 0)) for setting in ACCURACY["CNN"]
    }
    real = "logistic circuit (real-valued)"
    assert {setting for setting, model in best.items() if model != real} == {("mnist", 0.1)}  # section 5.3
    assert best["mnist", 0.1] == "5-layer MLP"
    drops = {
        model: tuple(ACCURACY[model][data, 1.0] - ACCURACY[model][data, 0.02] for data in ("mnist", "fashion-mnist"))
        for model in (real, "logistic circuit (binary)", "5-layer MLP", "CNN")
    }
    assert drops[real] == pytest.approx((3, 5), abs=0.5)  # "around 3%", "around 5%"
    assert drops["logistic circuit (binary)"] == pytest.approx((3, 5), abs=0.7)
    assert drops["5-layer MLP"] == pytest.approx((5, 9), abs=0.5)
    assert drops["CNN"] == pytest.approx((4, 7), abs=0.5)
    errors = [100 - ACCURACY[model]["mnist", 1.0] for model in ("RAT-SPN", real)]
    assert errors[0] / errors[1] == pytest.approx(3, abs=0.5)  # section 1: "cuts the error rate by a factor of three"
    assert {model for model, sizes in PARAMETERS.items() if not isinstance(sizes["mnist", 1.0], int)} == {
        "logistic regression"
    }


@pytest.mark.parametrize(("claim", "layers"), [("3-layer MLP", "mlp-3"), ("5-layer MLP", "mlp-5")])
def test_the_mlps_have_as_many_weights_as_is_claimed(claim: str, layers: str) -> None:
    sizes = [int(size) for size in MODELS[layers].label.removeprefix("MLP ").split("-")]
    assert sizes == [784, *SETTINGS[layers]["hidden_layer_sizes"], 10]
    n_weights = sum(map(math.prod, pairwise(sizes)))
    assert 1000 * (n_weights // 1000) == PARAMETERS[claim]["mnist", 1.0]


def lines(table: int) -> dict[str, list[str]]:
    """The cells of a table of RESULTS by the model's label, as Markdown shows them."""
    rows = [line for line in markdown(table, table_cells(table, RESULTS)).splitlines() if line[:1] == "|"]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {label: rest for label, *rest in cells}


def test_a_table_puts_what_was_measured_beside_what_is_claimed() -> None:
    accuracy = lines(1)
    assert accuracy["model"] == ["MNIST", "Fashion"]
    assert accuracy["logistic circuit, flat"] == ["97.62 (99.4)", "- (91.3)"]
    assert accuracy["ResNet"] == ["- (99.5)", "- (93.6)"]
    assert "logistic circuit, best recipe" not in accuracy  # not measured, and the claim is on the line above
    sizes = lines(2)
    assert sizes["logistic circuit, flat"] == ["162,660 (182K)", "- (467K)"]
    assert sizes["logistic regression"] == ["- (<1K)", "- (<1K)"]
    assert sizes["ResNet"] == ["- (4,838K)", "- (4,838K)"]
    assert "random forest, 500 trees" not in sizes
    few = lines(3)
    assert few["model"] == [f"{name}, {share}%" for name in ("MNIST", "Fashion") for share in (100, 10, 2)]
    assert few["SVM, RBF kernel"] == ["- (98.5)", "-", "-", "- (87.8)", "50.00", "-"]
    assert "kernel logistic regression" not in few


@pytest.mark.unabridged
def test_the_tables_are_written(tmp_path: Path) -> None:
    paths = write_tables(tmp_path, [1, 3], RESULTS)
    assert [path.name for path in paths] == ["table-1.md", "table-1.json", "table-3.md", "table-3.json"]
    assert write_picture(tmp_path, RESULTS).read_bytes().startswith(b"\x89PNG")
    text = paths[0].read_text()
    assert "--quick" not in text
    assert "nodes of trees: fashion-10-svm 78,400.\n" in paths[2].read_text()
    quick = {FLAT: dataclasses.replace(RESULT, quick=True)}
    assert "Made with --quick" in markdown(1, table_cells(1, quick))
    cells = json.loads(paths[1].read_text())["cells"]
    (cell,) = [cell for cell in cells if cell["row"] == "mnist-100-flat"]
    assert (cell["claim"], cell["beside"]) == (99.4, "logistic circuit (real-valued)")
    assert cell["measured"] == pytest.approx(97.618)


def test_a_row_survives_its_file(tmp_path: Path) -> None:
    assert load_row(tmp_path, RESULT.name) is None
    save_row(tmp_path, RESULT)
    assert load_row(tmp_path, RESULT.name) == RESULT


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"kind": "lcml reproduce row 1"}', "name", "type", "other"])
def test_a_damaged_row_is_an_error_that_names_the_file(tmp_path: Path, content: str) -> None:
    save_row(tmp_path, RESULT)
    path = row_path(tmp_path, RESULT.name)
    whole = path.read_text()
    changed = {
        "name": whole.replace("mnist-100-flat", "mnist-100-svm"),
        "type": whole.replace("0.97618", "null"),
        "other": whole.replace("n_train", "n_trained"),
    }
    path.write_text(changed.get(content, content))
    with pytest.raises(FormatError, match=r"mnist-100-flat\.json: is no row .*delete it to run the row again"):
        load_row(tmp_path, RESULT.name)


def test_a_row_of_other_settings_is_refused() -> None:
    check_same(Path("a.json"), RESULT.settings, {**RESULT.settings, "backend": "cupy", "since": 3})
    before_auto = {"encoder": "scale", "metric": "accuracy"}
    check_same(Path("a.lcml"), before_auto, {"encoder": "auto", "metric": "auto"})
    for other in ({"encoder": "boolean", "metric": "auto"}, {"encoder": "auto", "metric": "log-loss"}):
        with pytest.raises(SettingsError, match="was made with"):
            check_same(Path("a.lcml"), before_auto, other)
    with pytest.raises(SettingsError, match=r"a\.json was made with train_fraction 1\.0, but 0\.02 is asked for"):
        check_same(Path("a.json"), RESULT.settings, {**RESULT.settings, "train_fraction": 0.02})
