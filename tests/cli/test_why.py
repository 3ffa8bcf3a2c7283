"""Reasons, counterfactuals, pruning and cards from the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from lcml import load_model, save_model
from lcml.circuits.vtree import balanced
from lcml.data import load_splits
from lcml.explain.contributions import feature_conditions
from lcml.model.metrics import quality
from tests.cli.commands import output, refused
from tests.explain.test_contributions import model_of
from tests.worlds import grown

QUICK = ("--trees", 3, "--folds", 2, "--no-tracking", "--backend", "numpy", "--quiet")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, rng = tmp_path_factory.mktemp("why"), np.random.default_rng(0)
    age = rng.integers(18, 80, 300)
    frame = pd.DataFrame(
        {"age": age, "plan": rng.choice(["a", "b"], 300), "income": rng.normal(3000, 500, 300).round()}
    )
    frame["label"] = np.where((age < 45) & (frame.plan == "a"), "leaves", "stays")
    frame.to_csv(folder / "customers.csv", index=False)
    output("train", folder / "customers.csv", "-o", folder / "model.lcml", *QUICK)
    return folder / "model.lcml", folder / "customers.csv"


def test_reasons_and_counterfactuals(trained: tuple[Path, Path]) -> None:
    found = json.loads(output("explain", *trained, "--row", 2, "--sufficient", "--json"))
    told = output("explain", *trained, "--row", 2, "--sufficient")
    assert f"{found['label']}, for which {len(found['inputs'])} of 3 inputs are enough:" in told
    assert f"Whatever values the others have, it stays {found['label']}." in told
    assert found["minimal"]
    assert all(f"\n  {word}\n" in told for word in found["words"])
    told = output("explain", *trained, "--row", 2, "--sufficient", "--probability", 0.8)
    assert "of 149 other rows are" in told  # of 299 others 150 chose
    found = json.loads(output("explain", *trained, "--row", 2, "--counterfactual", "--json"))
    assert found["fewest"]
    told = output("explain", *trained, "--row", 2, "--counterfactual", "--fixed", "income")
    assert "No fewer changes suffice." in told
    assert "income" not in told
    none = output("explain", *trained, "--row", 2, "--counterfactual", "--fixed", "income, age,plan")
    assert "no change of what may change gives another label, whatever values they take" in none


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sufficient", "--against", "stays"), "-o and --against are for contributions"),
        (("--sufficient", "--counterfactual"), "are two questions; ask one"),
        (("--probability", 0.9), "--probability is for --sufficient"),
        (("--fixed", "age"), "--fixed is for --counterfactual"),
        (("--counterfactual", "--fixed", "agee"), "there is no 'agee'; the names are age, plan, income"),
        (("--sufficient", "--probability", 0), "expected more than 0 and at most 1"),
    ],
)
def test_wrong_questions(trained: tuple[Path, Path], options: tuple[object, ...], message: str) -> None:
    assert message in refused("explain", *trained, *options)


def test_one_row_has_no_share(trained: tuple[Path, Path], tmp_path: Path) -> None:
    pd.read_csv(trained[1]).head(1).to_csv(tmp_path / "one.csv", index=False)
    assert "expected at least 2, found 0" in refused(
        "explain", trained[0], tmp_path / "one.csv", "--sufficient", "--probability", 0.9
    )
    assert "inputs are enough" in output("explain", trained[0], tmp_path / "one.csv", "--sufficient")


def test_pruning(trained: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = trained
    found = json.loads(output("compact", model, data, "--max-conditions", 4, "-o", tmp_path / "few.lcml", "--json"))
    few = load_model(tmp_path / "few.lcml")
    assert sum(part.weighted.sum() for part in few.parts) == 4
    assert found["n_parameters_after"] == few.n_parameters == 5
    conditions = [step["conditions"] for step in found["curve"]]
    assert conditions == sorted(conditions, reverse=True)
    assert few.provenance["pruning"]["n_conditions_before"] == conditions[0]
    splits = load_splits(data)
    better = quality(few.logits(splits.test.features), splits.test.labels, 2, "sigmoid").accuracy
    assert better > 0.8
    shown = output("compact", model, data, "--tolerance", 0.05, "-o", tmp_path / "near.lcml")
    assert "valid log-loss" in shown
    record = load_model(tmp_path / "near.lcml").provenance["pruning"]
    assert record["valid_log_loss"] <= record["valid_log_loss_before"] + 0.05
    assert record["n_conditions"] < record["n_conditions_before"]


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("digits", ("--view", "window=4,grid=2,root", "--augment", "copies=1,shift=2")),
        ("breast-cancer", ("--image-shape", "1x30", "--view", "window=1x3,root", "--class-weight", "balanced")),
    ],
)
def test_what_pruning_leaves_is_fitted_as_training_fitted_it(
    data: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    """To the same copies, with the same weights of classes: all conditions left, it is the model that --refit gives."""
    asked = ("--rounds", 0, "--l2", 1e-2, "--refit", "--no-tracking", "--backend", "numpy", "--quiet")
    output("train", data, *asked, *options, "-o", tmp_path / "model.lcml")
    output("train", data, *asked, *options[:-2], "-o", tmp_path / "plain.lcml")
    output("compact", tmp_path / "model.lcml", data, "--max-conditions", 1000, "-o", tmp_path / "again.lcml")
    x = load_splits(data).test.features
    trained, plain, again = (
        load_model(tmp_path / f"{name}.lcml").predict_proba(x) for name in ("model", "plain", "again")
    )
    np.testing.assert_allclose(again, trained, atol=5e-3)
    assert np.abs(plain - trained).max() > 0.05


def test_edits_are_recorded(trained: tuple[Path, Path], tmp_path: Path) -> None:
    model, _ = trained
    before = load_model(model)
    texts = list(feature_conditions(before))
    some, other = texts[0], texts[3]
    edit = ("--drop", some, "--edit", f"{other}=2.5", "-o", tmp_path / "edited.lcml")
    output("compact", model, *edit)
    after = load_model(tmp_path / "edited.lcml")
    weights = dict(zip(feature_conditions(after), after.weights[0], strict=True))
    assert some not in weights
    assert weights[other] == 2.5
    drop, change = after.provenance["edits"]
    assert drop == {"drop": some, "before": [before.weights[0][0]]}
    assert change == {"edit": other, "class": "stays", "before": before.weights[0][3], "after": 2.5}
    assert "It was edited by hand, 2 conditions" in output("card", tmp_path / "edited.lcml")


def test_wrong_pruning_is_refused(trained: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = trained
    to = ("-o", tmp_path / "out.lcml")
    pd.read_csv(data).head(200).to_csv(tmp_path / "less.csv", index=False)
    for arguments, message in (
        ((data, "--max-conditions", 3, "--tolerance", 1), "contradict each other; give one"),
        (("--max-conditions", 3), "--max-conditions needs DATA"),
        ((data,), "DATA is for --max-conditions"),
        ((data, "--max-parameters", 1), "expected 2 or more"),
        ((data, "--tolerance", 1, "--edit", "a=1"), "run lcml compact twice"),
        ((tmp_path / "less.csv", "--tolerance", 1), "is not what the model was trained on (customers)"),
        (("--drop", "age is 1000"), "no condition of the model is 'age is 1000'; near to it"),
        (("--edit", "age is 1000"), "expected CONDITION=WEIGHT"),
    ):
        assert message in refused("compact", model, *arguments, *to)
    assert not (tmp_path / "out.lcml").exists()


def header(card: str) -> dict[str, Any]:
    _, front, _ = card.split("---\n", 2)
    found: dict[str, Any] = yaml.safe_load(front)
    return found


def test_a_card(trained: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = trained
    output("card", model, data, "-o", tmp_path / "README.md")
    card = (tmp_path / "README.md").read_text()
    (entry,) = header(card)["model-index"]
    (result,) = entry["results"]
    measured = json.loads(output("evaluate", model, data, "--json"))
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert values["accuracy"] == pytest.approx(measured["test_accuracy"], abs=1e-6)
    assert values["log_loss"] == pytest.approx(measured["test_log_loss"], abs=1e-6)
    assert (entry["name"], result["dataset"]) == (
        "model",
        {"name": "customers", "type": "customers", "split": "test"},
    )
    assert load_model(model).provenance["data"]["fingerprint"] in card
    assert "trees = 3\n" in card
    assert str(tmp_path.parent) not in card
    pd.read_csv(data).query("label == 'stays'").head(1).to_csv(tmp_path / "one.csv", index=False)
    one = output("card", model, tmp_path / "one.csv")
    assert "How well it knows `leaves`: no example measured here was of it" in one
    assert "| AUC, macro | not known | not known |" in one
    assert [m["type"] for m in header(one)["model-index"][0]["results"][0]["metrics"]] == ["accuracy", "log_loss"]


def test_a_card_of_a_model_without_provenance(tmp_path: Path) -> None:
    nameless = model_of(grown(balanced(4), 0, 1), 3)
    save_model(nameless, tmp_path / 'odd "name": x.lcml')
    card = output("card", tmp_path / 'odd "name": x.lcml')
    assert "model-index" not in header(card)
    assert "What it was trained on is not known" in card
    assert "How it was trained is not known" in card
