"""`lcml train` on more data than it may hold in memory."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyarrow import parquet

FLIPPED = 0.1
INFORMATIVE = 50
BLOCK = 8192
GB = 2**30


def blocks(n: int, d: int) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Examples whose first 50 features are 0.3 larger in class 1, about one standard deviation: sqrt(50) deviations
    apart, the classes overlap in less than 1 of 1000 examples. Then a tenth of the labels is flipped, so that a rule
    that has learned all there is to learn is right in 0.9 of new examples."""
    generator = np.random.default_rng(0)
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        truth = generator.integers(0, 2, size)
        features = generator.random((size, d))
        features[:, :INFORMATIVE] += 0.3 * truth[:, None]
        yield features, np.where(generator.random(size) < FLIPPED, 1 - truth, truth)


def train(data: Path, budget: int, *options: str) -> dict[str, Any]:
    """What `lcml train` prints."""
    command = [sys.executable, "-m", "lcml", "train", str(data), "--memory-budget", str(budget), *options]
    command += ["--solver", "minibatch", "--no-tracking", "--json", "--quiet", "--rounds", "1", "--l2-path", "1e-4"]
    command += ["--round-iterations", "8", "--final-iterations", "8"]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=data.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["test_accuracy"] == pytest.approx(1 - FLIPPED, abs=0.02)
    return result


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Path]:
    """1.3 GB of raw features, gone after the test."""
    folder, n, d = tmp_path / "large", 160_000, 1000
    folder.mkdir()
    if shutil.disk_usage(folder).free < 2 * GB:
        pytest.skip("needs 2 GB of disk")
    features = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float64, (n, d))
    labels = np.empty(n, np.int64)
    for i, (block, codes) in enumerate(blocks(n, d)):
        rows = slice(i * BLOCK, i * BLOCK + len(block))
        features[rows], labels[rows] = block, codes
    np.save(folder / "labels.npy", labels)
    del features
    yield folder
    shutil.rmtree(folder)


def test_more_than_a_gigabyte_is_learned_from_in_less(large: Path) -> None:
    size = (large / "features.npy").stat().st_size
    assert size > 1.1 * GB
    budget = 30
    result = train(large, budget, "--train-fraction", "0.1", "--test-fraction", "0.05")
    assert result["n_train"] + result["n_valid"] == 15_200
    assert result["peak_memory_mb"] < 1024
    # and the features of the training examples alone, in 16 bits, would be more than the budget
    assert 2 * result["n_train"] * result["n_parameters"] > budget * 2**20


def test_a_parquet_file_is_learned_from_without_holding_it(tmp_path: Path) -> None:
    ((features, labels),) = blocks(4000, 60)
    columns = {f"x{j}": features[:, j] for j in range(60)}
    parquet.write_table(pa.table(columns | {"label": labels}), tmp_path / "table.parquet", row_group_size=1500)
    train(tmp_path / "table.parquet", 1)
