"""`lcml train --missing` and `--init generative`, and files with gaps predicted by what they left."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from lcml import load_model
from tests.cli.commands import output, refused

QUICK = ["--no-tracking", "--quiet", "--rounds", "1", "--l2-path", "0.1", "--backend", "numpy"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two numbers and an array of them, and a model of each with a policy."""
    folder = tmp_path_factory.mktemp("missing")
    x = np.random.default_rng(0).integers(0, 10, (80, 2)).astype(float)
    y = (x.sum(axis=1) > 9).astype(int)
    with (folder / "t.csv").open("w") as file:
        csv.writer(file).writerows([["a", "b", "label"], *np.column_stack([x, y]).astype(int).tolist()])
    np.savez(folder / "a.npz", X=x, y=y)
    np.savez(folder / "gaps.npz", X=np.array([[np.nan, 3], [9, np.nan]]), y=np.array([0, 1]))
    (folder / "gaps.csv").write_text("a,b\n,3\n9,\n")
    output("train", folder / "t.csv", "--missing", "prior", *QUICK, "-o", folder / "t.lcml")
    output("train", folder / "a.npz", "--missing", "expected", "--init", "generative", *QUICK, "-o", folder / "a.lcml")
    return folder


@pytest.mark.parametrize(("model", "gaps", "policy"), [("t", "gaps.csv", "prior"), ("a", "gaps.npz", "expected")])
def test_gaps_are_predicted_by_the_policy(trained: Path, model: str, gaps: str, policy: str) -> None:
    loaded = load_model(trained / f"{model}.lcml")
    assert loaded.missing is not None
    assert loaded.missing.policy == policy
    assert f"{'missing':20} {policy}\n" in output("inspect", trained / f"{model}.lcml")
    rows = list(csv.DictReader(output("predict", trained / f"{model}.lcml", trained / gaps).splitlines()))
    expected = loaded.predict_proba(np.array([[np.nan, 3], [9, np.nan]]))
    assert [float(row["probability_1"]) for row in rows] == pytest.approx(expected[:, 1])
    told = json.loads(output("explain", trained / f"{model}.lcml", trained / gaps, "--json"))
    assert told["probabilities"]["1"] == pytest.approx(expected[0, 1], abs=1e-6)
    assert "lacks an input" in refused("explain", trained / f"{model}.lcml", trained / gaps, "--sufficient")


def test_gaps_are_refused_without_a_policy_and_in_training(trained: Path, tmp_path: Path) -> None:
    output("train", trained / "a.npz", *QUICK, "-o", tmp_path / "m.lcml")
    told = refused("predict", tmp_path / "m.lcml", trained / "gaps.npz")
    assert "gaps.npz, examples: row 0, column 0 ('x0') is nan; features must be finite" in told
    assert "features must be finite" in refused("train", trained / "gaps.npz", *QUICK, "-o", tmp_path / "x.lcml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--missing", "expected"], "missing: expected is for one circuit over the whole example"),
        (["--init", "generative"], "init: generative is for the structure splits"),
        (["--average"], "average: for circuits that grow by splits; leave it out, or choose structure splits"),
    ],
)
def test_what_trees_cannot_have_is_said_before_training(trained: Path, options: list[str], message: str) -> None:
    assert message in refused("train", trained / "t.csv", *options, *QUICK, "-o", trained / "x.lcml")
