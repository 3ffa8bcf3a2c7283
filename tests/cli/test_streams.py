"""Commands whose output cannot be shown, or is read by nobody."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

from lcml import LogisticCircuitClassifier, load_model, save_model
from lcml.cli.streams import Lenient
from tests.cli.commands import output
from tests.forked import Forked
from tests.tracking.stores import until

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
    out, _ = Forked(
        "-m", "lcml", command, str(model), *arguments, env={**os.environ, "PYTHONIOENCODING": encoding}
    ).succeeds()
    shown = r"\u269c", r"\u65e5", "⚜", "日"  # typer writes UTF-8 where it is told ASCII
    assert any(name in out for name in shown)


def test_a_stderr_that_nobody_reads_ends_no_training(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = ["-m", "lcml", "train", "iris", "--rounds", "1", "--no-tracking", "--backend", "numpy"]
    Forked(*command, cwd=tmp_path, stderr=writer).succeeds()
    os.close(writer)
    assert load_model(tmp_path / "iris.lcml").classes == ("setosa", "versicolor", "virginica")


def test_a_stderr_that_is_full_stops_no_training(tmp_path: Path) -> None:
    """Nobody reads a pipe that is full already: neither progress nor the notice of a signal waits for it."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    arguments = ["train", "iris", "--rounds", "9999", "--patience", "9999", "--growth", "0.01", "--no-tracking"]
    with Forked("-m", "lcml", *arguments, cwd=tmp_path, stderr=writer) as process:
        until(lambda: list(tmp_path.glob("checkpoints/*.checkpoint")) or None, "a checkpoint")
        process.send_signal(signal.SIGTERM)
    os.close(reader)
    os.close(writer)
    assert process.returncode == 128 + signal.SIGTERM
    assert load_model(tmp_path / "iris.lcml").classes == ("setosa", "versicolor", "virginica")


ENDED_WHILE_IT_WRITES = """
import contextlib, os, signal, sys
from lcml.cli import main
from lcml.files import atomic_writer
sys.argv = ["lcml", "--version"]
with contextlib.suppress(SystemExit):
    main()
with atomic_writer("predictions.csv") as file:
    file.write(b"label")
    os.kill(os.getpid(), signal.SIGTERM)
    print("went on")
"""


def test_a_command_that_is_ended_leaves_no_unfinished_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDED_WHILE_IT_WRITES]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "went on" in done.stdout, done.stderr) == (128 + signal.SIGTERM, False, "")
    assert not list(tmp_path.iterdir())


def test_a_reader_that_comes_back_is_told_again() -> None:
    reader, writer = os.pipe()
    stream = open(writer, "w", encoding="ascii", errors="backslashreplace")  # noqa: SIM115  # it cannot be closed
    lenient = Lenient(stream)
    lenient.write("⚜" * 200_000)  # more than a pipe holds
    received = os.read(reader, 1 << 20)
    lenient.write("here")
    assert os.read(reader, 1 << 20) == b"here"
    assert received == rb"\u269c" * (len(received) // 6)
    os.close(reader)
    lenient.write("and gone")
    lenient.write("and gone")
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_a_dash_is_stdout(model: Path) -> None:
    data = model.with_suffix(".csv")
    assert output("predict", model, data, "-o", "-") == output("predict", model, data)
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("variables", "notice"),
    [
        ({"NUMBA_DISABLE_JIT": "1"}, "using the slower numpy backend: backend numba: its compiler is switched off"),
        ({"NUMBA_CACHE_DIR": "empty"}, "compiling kernels, once"),
    ],
)
def test_what_takes_long_is_said(model: Path, tmp_path: Path, variables: dict[str, str], notice: str) -> None:
    """Without a compiler `auto` is numpy; with a cache that is empty, the first command says why nothing happens."""
    told = [
        subprocess.run(
            [sys.executable, "-m", "lcml", "predict", str(model), str(model.with_suffix(".csv"))],
            env={**os.environ, **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        for _ in range(2)
    ]
    assert [run.returncode for run in told] == [0, 0]
    assert notice in told[0].stderr
    assert (notice in told[1].stderr) == ("NUMBA_DISABLE_JIT" in variables)
