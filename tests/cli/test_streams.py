"""Commands whose output cannot be shown, or is read by nobody."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

from lcml import LogisticCircuitClassifier, load_model, save_model

CLASSES = ("fleur-de-lis ⚜", "Öster", "日本")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    X, y = load_iris(return_X_y=True)
    fitted = LogisticCircuitClassifier(rounds=0, backend="numpy", valid_fraction=0).fit(X, y).model_
    save_model(replace(fitted, classes=CLASSES), tmp_path / "flowers.lcml")
    rows = "".join(f"{','.join(map(str, row))},{CLASSES[k]}\n" for row, k in zip(X[::30], y[::30], strict=True))
    (tmp_path / "flowers.csv").write_text("x0,x1,x2,x3,label\n" + rows, encoding="utf-8")
    return tmp_path / "flowers.lcml"


@pytest.mark.parametrize("command", ["evaluate", "predict", "explain", "inspect"])
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_class_names_beyond_the_terminals_encoding(model: Path, command: str, encoding: str) -> None:
    arguments = [] if command == "inspect" else [str(model.with_suffix(".csv"))]
    run = subprocess.run(
        [sys.executable, "-m", "lcml", command, str(model), *arguments],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
    )
    assert run.returncode == 0, run.stderr
    assert rb"\u65e5\u672c" in run.stdout or rb"fleur-de-lis \u269c" in run.stdout


def test_a_stderr_that_nobody_reads_ends_no_training(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [sys.executable, "-m", "lcml", "train", "iris", "--rounds", "1", "--no-tracking", "--backend", "numpy"],
        cwd=tmp_path,
        stderr=writer,
        stdout=subprocess.PIPE,
    )
    os.close(writer)
    assert run.returncode == 0
    assert load_model(tmp_path / "iris.lcml").classes == ("setosa", "versicolor", "virginica")
