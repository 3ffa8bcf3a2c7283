"""Speed, size, load time and memory of an exported circuit beside an MLP, LightGBM and a forest; not a default test.

    LCML_DATA_DIR=... python -m pytest tests/bench/test_export_bench.py -o addopts="" -s

Everything in one process and one onnxruntime, one thread, rounds interleaved, medians. Every call gets other images
than the one before: a tree that sees the same image again finds its path in the cache. The figures are printed; goals
are asserted as ratios, because they alone carry over to other machines.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from lcml.formats import read_circuit, read_vtree
from lcml_export import export_model
from tests.bench import baselines

pytestmark = pytest.mark.data

ROUNDS = 9
SECONDS_PER_ROUND = 0.05
BATCHES = (1, 8, 64, 256, 1024, 4096)

Times = dict[int, dict[str, float]]


@pytest.fixture(scope="module")
def model_path(data_dir_of_module: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    vtree = read_vtree(data_dir_of_module / "ucla" / "balanced.vtree")
    model = read_circuit(data_dir_of_module / "ucla" / "mnist.circuit", vtree, scale=255.0)
    path = tmp_path_factory.mktemp("export") / "circuit.onnx"
    export_model(model, path)
    return path


@pytest.fixture(scope="module")
def data_dir_of_module() -> Path:
    directory = os.environ.get("LCML_DATA_DIR")
    if not directory:
        pytest.skip("LCML_DATA_DIR is not set")
    return Path(directory)


@pytest.fixture(scope="module")
def times(model_path: Path, data_dir_of_module: Path) -> Times:
    """Median microseconds per image, by batch size and contender."""
    images, labels = baselines.mnist(data_dir_of_module, "train")
    part = slice(0, baselines.N_TRAINED)
    sessions = {
        "circuit": session(model_path.read_bytes()),
        "MLP": session(baselines.mlp().SerializeToString()),
        "LightGBM": session(baselines.lightgbm(images[part], labels[part]).SerializeToString()),
        "forest": session(baselines.forest(images[part], labels[part]).SerializeToString()),
    }
    test_images, test_labels = baselines.mnist(data_dir_of_module, "t10k")
    x = test_images.astype(np.float32)
    for name in ("circuit", "LightGBM", "forest"):  # what is compared classifies
        assert (sessions[name].run(["label"], {"features": x[:2000]})[0] == test_labels[:2000]).mean() > 0.9, name
    found = {batch: interleaved(sessions, x, batch) for batch in BATCHES}
    print(f"\n{'batch':>6}" + "".join(f"{name:>12}" for name in sessions) + "   us per image (times the circuit)")
    for batch, row in found.items():
        cells = (f"{row[n]:>8.1f} {row[n] / row['circuit']:>4.1f}" for n in sessions)
        print(f"{batch:>6}" + "".join(f"{cell:>14}" for cell in cells))
    return found


def session(content: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def interleaved(sessions: dict[str, Any], x: Any, batch: int) -> dict[str, float]:
    rounds: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(ROUNDS):
        for name, each in sessions.items():
            n_calls, start = 0, time.perf_counter()
            while n_calls == 0 or time.perf_counter() - start < SECONDS_PER_ROUND:
                first = n_calls * batch % (len(x) - batch)
                each.run(None, {"features": x[first : first + batch]})
                n_calls += 1
            rounds[name].append((time.perf_counter() - start) / (n_calls * batch) * 1e6)
    return {name: statistics.median(values) for name, values in rounds.items()}


@pytest.mark.parametrize(("contender", "factor"), [("MLP", 1.8), ("forest", 6.0), ("LightGBM", 1.2)])
def test_one_image(times: Times, contender: str, factor: float) -> None:
    assert times[1][contender] >= factor * times[1]["circuit"]


@pytest.mark.parametrize("batch", [256, 1024, 4096])
@pytest.mark.parametrize(("contender", "factor"), [("MLP", 2.3), ("LightGBM", 3.0), ("forest", 12.0)])
def test_many_images(times: Times, batch: int, contender: str, factor: float) -> None:
    assert times[batch][contender] >= factor * times[batch]["circuit"]


def test_size_load_time_and_memory(model_path: Path) -> None:
    """At most 2.2 MB, 15 ms to load, 30 MB more at batch 4096; in a process of its own."""
    code = _MEASURE.format(path=str(model_path))
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    load_ms, growth_mb = map(float, output.split())
    print(
        f"\n{model_path.stat().st_size / 1e6:.2f} MB, loaded in {load_ms:.1f} ms, {growth_mb:.1f} MB more at batch 4096"
    )
    assert model_path.stat().st_size <= 2.2e6
    assert load_ms <= 15
    assert growth_mb <= 30


_MEASURE = """
import statistics, time
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
def load():
    start = time.perf_counter()
    session = onnxruntime.InferenceSession({path!r}, options, providers=["CPUExecutionProvider"])
    return time.perf_counter() - start, session
def resident():
    with open("/proc/self/status") as lines:
        return {{line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}}
seconds = [load()[0] for _ in range(7)]
session = load()[1]
x = numpy.random.default_rng(0).integers(0, 256, (4096, 784)).astype(numpy.float32)
session.run(None, {{"features": x[:1]}})
before = int(resident()["VmRSS"])
session.run(None, {{"features": x}})
print(1000 * statistics.median(seconds), (int(resident()["VmHWM"]) - before) / 1024)
"""
