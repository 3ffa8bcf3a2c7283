"""`lcml reproduce --quick` as a user meets it, on images small enough for it."""

import json
import os
import shutil
import signal
import struct
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lcml.cli import app
from lcml.formats import load_model
from lcml.runs.reproduce import runner
from lcml.runs.reproduce.apart import fit_apart
from lcml.runs.reproduce.baselines import Fitted, fit
from lcml.tracking import find_run
from tests.forked import Forked

N_TRAIN, N_TEST = 4000, 100
"""At least 400 images a class: --quick reads 0.5% of them for the row of 2%."""


def write_idx(path: Path, array: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    path.write_bytes(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of two sets: an image of class k has a bright bar in rows 2k and 2k + 1, on noise."""
    directory, generator = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for name in ("mnist", "fashion-mnist"):
        (directory / name).mkdir()
        for part, n in (("train", N_TRAIN), ("t10k", N_TEST)):
            labels = np.arange(n, dtype=np.uint8) % 10
            pixels = generator.integers(0, 80, (n, 28, 28), dtype=np.uint8)
            for k in range(10):
                pixels[labels == k, 2 * k : 2 * k + 2] += np.uint8(120)
            write_idx(directory / name / f"{part}-images-idx3-ubyte", pixels)
            write_idx(directory / name / f"{part}-labels-idx1-ubyte", labels)
    return directory


def invoke(directory: Path, images: Path, *arguments: str) -> Result:
    options = ["--quick", "--no-tracking", "--data-dir", str(images), "-o", str(directory)]
    return CliRunner().invoke(app, ["reproduce", *options, *arguments])


def start(directory: Path, arguments: Sequence[str], *, quick: bool = True) -> Forked:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"}
    command = ["-m", "lcml", "reproduce", *["--quick"] * quick, *arguments]
    return Forked(*command, cwd=directory, env=environment, errors=True)


@pytest.fixture(scope="module")
def first(images: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A directory with Table 1, and what the command printed. scikit-learn's models are fitted here: a process changes
    nothing. jax has threads, beside which no other test could fork."""

    def fit_here(key: str, *arguments: Any) -> Fitted | None:
        return fit_apart(key, *arguments) if key == "cnn" else fit(key, *arguments[:3])

    directory = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "fit_apart", fit_here)
        return directory, invoke(directory, images, "--table", "1")


def row(directory: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((directory / "rows" / f"{name}.json").read_text())
    return content


def test_a_table_from_nothing(first: tuple[Path, Result]) -> None:
    directory, result = first
    assert result.exit_code == 0, result.output
    assert {path.name for path in directory.iterdir()} == {
        *("rows", "models", "checkpoints", "table-1.md", "table-1.json", "accuracy.png")
    }
    assert result.stdout.startswith((directory / "table-1.md").read_text())
    svm, flat = row(directory, "mnist-100-svm"), row(directory, "mnist-100-flat")
    assert (svm["n_train"], svm["n_valid"], svm["n_test"]) == (70, 10, N_TEST)  # 10% of 80, but one of each class
    assert svm["settings"] == {"train_fraction": 0.02, "seed": 0, "C": 8.0, "gamma": 0.05}
    assert svm["fingerprint"] == flat["fingerprint"]
    model = load_model(directory / "models" / "mnist-100-flat.lcml")
    assert flat["n_parameters"] == model.n_parameters
    assert flat["settings"] == model.provenance["settings"]
    assert flat["settings"]["max_parameters"] == 164000
    boolean = row(directory, "mnist-100-flat-boolean")["settings"]
    assert (boolean["encoder"], boolean["max_parameters"]) == ("boolean", 164000)
    assert flat["test_accuracy"] > 0.9
    assert f"| {100 * flat['test_accuracy']:.2f} (99.4) |" in result.stdout


def test_what_is_there_is_not_run_again(first: tuple[Path, Result], images: Path, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(first[0], directory)
    (directory / "rows" / "mnist-100-svm.json").unlink()
    before = {path.name: path.stat().st_mtime_ns for path in (directory / "rows").iterdir()}
    result = invoke(directory, images, "--table", "1", "--json")
    assert result.exit_code == 0
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["mnist-100-svm (1 of 1)", "mnist-100-svm"]
    assert {n: (directory / "rows" / n).stat().st_mtime_ns for n in before} == before
    printed = json.loads(result.stdout)
    assert len(printed["rows"]) == len(before) + 1
    assert printed["tables"] == [str(directory / name) for name in ("table-1.md", "table-1.json", "accuracy.png")]
    assert (directory / "table-1.md").read_bytes() == (first[0] / "table-1.md").read_bytes()


def test_what_cannot_be_used_is_refused_before_anything_is_run(
    first: tuple[Path, Result], images: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(first[0], directory)
    path = directory / "rows" / "fashion-100-flat.json"
    path.write_bytes(path.read_bytes()[:-40])
    not_quick = ["reproduce", "--no-tracking", "--data-dir", str(images), "-o", str(first[0])]
    for result, message in (
        (invoke(directory, images), f"{path}: is no row of lcml reproduce"),
        (invoke(directory, images, "--row", "mnist-100-resnet"), "row: expected one of"),
        (invoke(directory, images, "--skip", "*-resnet"), "some of them as in '*-svm'; found '*-resnet'"),
        (invoke(directory, images, "--tracking-uri", "sqlite:///a.db"), "no_tracking and tracking_uri contradict"),
        (invoke(first[0], images, "--seed", "1"), "was made with seed 0, but 1 is asked for"),
        (CliRunner().invoke(app, not_quick), "was made with train_fraction 0.02, but 1.0 is asked for"),
    ):
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
        assert result.stderr.count("\n") == 1


def test_without_jax_its_rows_are_refused_or_left_out(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcml.cli.common.find_spec", lambda name: None if name == "jax" else find_spec(name))
    result = invoke(tmp_path / "all", images, "--row", "mnist-2-*")
    assert (result.exit_code, result.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert "(--skip '*-cnn' leaves it out) needs the package jax: pip install 'lcml[reproduce]'" in result.stderr
    some = ("--row", "mnist-2-*", "--skip", "*-cnn", "--skip", "*-mlp-*", "--skip", "*-flat*", "--skip", "*-best")
    assert invoke(tmp_path / "some", images, *some).exit_code == 0
    assert len(list((tmp_path / "some" / "rows").iterdir())) == 3


def test_another_seed_divides_otherwise_in_a_place_of_its_own(
    first: tuple[Path, Result], images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--quick", "--no-tracking", "--data-dir", str(images), "--seed", "1", "--row", "mnist-100-flat"]
    assert CliRunner().invoke(app, ["reproduce", *options]).exit_code == 0
    places = (tmp_path / "reproduction-quick-seed-1", first[0])
    assert [row(place, "mnist-100-flat")["settings"]["seed"] for place in places] == [1, 0]
    other, before = (load_model(place / "models" / "mnist-100-flat.lcml") for place in places)
    assert not np.array_equal(other.bias, before.bias)


def test_an_interrupted_training_goes_on_to_the_same_row(
    first: tuple[Path, Result], images: Path, tmp_path: Path
) -> None:
    arguments = ["--no-tracking", "--data-dir", str(images), "--row", "fashion-100-flat", "-o", "out"]
    process = start(tmp_path, arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("round 0:"):
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert "the same command goes on from here" in err
    assert [path.name for path in (tmp_path / "out" / "checkpoints").iterdir()] == ["fashion-100-flat.checkpoint"]
    assert not (tmp_path / "out" / "rows").exists()
    out, _ = start(tmp_path, arguments).communicate()
    again, whole = row(tmp_path / "out", "fashion-100-flat"), row(first[0], "fashion-100-flat")
    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in whole.items() if k != "seconds"}
    assert "logistic circuit, flat" in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_baseline_can_be_interrupted(images: Path, tmp_path: Path, number: signal.Signals) -> None:
    arguments = ["--data-dir", str(images), "--table=1", "--row=mnist-100-mlp-5", "-o", "out"]
    process = start(tmp_path, arguments, quick=False)  # 50 times 3,600 images
    assert process.stderr is not None
    assert process.stderr.readline() == "mnist-100-mlp-5 (1 of 1)\n"
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out) == (128 + number, "")
    assert err.splitlines()[-2:] == [
        "Stopping; this row begins anew next time.",
        "Stopped; the same command goes on from here.",
    ]
    recorded = find_run("mnist-100-mlp-5", f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    assert (recorded.status, recorded.metrics) == ("KILLED", {})
    assert not (tmp_path / "out" / "rows").exists()
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".md", ".json", ".png"}


def test_rows_are_chosen_by_pattern_and_models_taken_from_elsewhere(
    first: tuple[Path, Result], images: Path, tmp_path: Path
) -> None:
    options = ["--row", "*-flat*", "--skip", "fashion-*", "--table", "1", "--models", str(first[0] / "models")]
    result = invoke(tmp_path, images, *options)
    assert result.exit_code == 0, result.output
    names = ["mnist-100-flat", "mnist-100-flat-boolean"]
    assert sorted(path.stem for path in (tmp_path / "rows").iterdir()) == names
    assert f"mnist-100-flat (1 of 2) from {first[0] / 'models' / 'mnist-100-flat.lcml'}\n" in result.stderr
    assert not (tmp_path / "checkpoints").exists()
    for name in names:
        taken, trained = row(tmp_path, name), row(first[0], name)
        for key in ("seconds", "machine"):
            taken.pop(key), trained.pop(key)
        assert taken == trained


@pytest.mark.data
def test_the_real_images_and_a_tracking_store(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("mnist-100-flat", "mnist-2-svm")
    options = ["--quick", "--data-dir", str(data_dir), "--table", "3", "--json", *(f"--row={n}" for n in names)]
    done = CliRunner().invoke(app, ["reproduce", *options])
    assert done.exit_code == 0, done.output
    results = {result["name"]: result for result in json.loads(done.stdout)["rows"]}
    assert set(results) == set(names)
    assert {result["n_test"] for result in results.values()} == {10_000}
    assert min(result["test_accuracy"] for result in results.values()) > 0.7
    uri = f"sqlite:///{tmp_path}/mlruns/mlflow.db"
    for name, result in results.items():
        recorded = find_run(name, uri)
        assert (recorded.run_id, recorded.experiment, recorded.status) == (result["run_id"], "reproduce", "FINISHED")
        assert recorded.metrics["final/test_accuracy"] == result["test_accuracy"]
    assert "- (97.8)" in (tmp_path / "reproduction-quick" / "table-3.md").read_text()
