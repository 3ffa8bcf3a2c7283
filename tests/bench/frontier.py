"""Accuracy against size and time of every model of docs/results, exported, on one core, beside small networks.

    LCML_DATA_DIR=... python -m tests.bench.frontier [--write docs/benchmarks.md] [--models mnist-164k,mnist-best]

One process, onnxruntime on one thread, other images in every call. Of every model and batch size, calls alternate with
LeNet-5 on batches of the same size, and what is shown is the median over rounds of the ratio of a model's time to
LeNet-5's in the same round: it travels, microseconds do not. Networks have random weights: their time is that of
trained ones, their accuracy is not measured. LightGBM, where it is installed, is fitted to MNIST first, which
wants two cores.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.files import write_atomically
from lcml.formats import load_model
from lcml_export import export_model
from tests.bench import baselines
from tests.bench.tables import as_table, between_markers
from tests.bench.test_export_bench import session

RESULTS = Path(__file__).parents[2] / "docs" / "results"
BATCHES = (1, 256, 1024)
ROUNDS = 7
SECONDS_PER_ROUND = 0.05
HEAD = (
    "model",
    "test accuracy",
    "parameters",
    "model file",
    "ONNX",
    "ONNX, int8",
    *(f"time at {b:,}" for b in BATCHES),
)
NONE = "-"


def ratios(model: Any, yardstick: Any, images: NDArray[np.float32], batch: int) -> float:
    """How many times as long as `yardstick` an image takes `model`."""
    found = []
    for _ in range(ROUNDS):
        per_image = []
        for each in (model, yardstick):
            n_calls, start = 0, time.perf_counter()
            while n_calls == 0 or time.perf_counter() - start < SECONDS_PER_ROUND:
                first = n_calls * batch % (len(images) - batch)
                each.run(None, {"features": images[first : first + batch]})
                n_calls += 1
            per_image.append((time.perf_counter() - start) / n_calls)
        found.append(per_image[0] / per_image[1])
    return statistics.median(found)


def rows(data_dir: Path, names: list[str] | None) -> Iterator[list[str]]:
    """The rows of the table: models by data set and accuracy, best first, then the peers."""
    images, labels = baselines.mnist(data_dir, "t10k")
    x = images.astype(np.float32)
    yardstick = session(baselines.lenet5().SerializeToString())

    def times(content: bytes) -> list[str]:
        other = session(content)
        return [_shown(ratios(other, yardstick, x, batch)) for batch in BATCHES]

    records = [json.loads(path.read_text()) for path in RESULTS.glob("*.json")]
    records = [record for record in records if names is None or record["name"] in names]
    with tempfile.TemporaryDirectory() as directory:
        for record in sorted(records, key=lambda record: (record["data"] != "mnist", -record["test_accuracy"])):
            path = RESULTS / f"{record['name']}.lcml"
            model, sizes = load_model(path), []
            for precision in ("float32", "int8"):
                to = Path(directory) / f"{precision}.onnx"
                sizes.append(export_model(model, to, precision=precision, self_check=False).n_bytes)
            content = (Path(directory) / "float32.onnx").read_bytes()
            accuracy, n_parameters = f"{100 * record['test_accuracy']:.2f}", f"{record['n_parameters']:,}"
            own = [accuracy, n_parameters, _kilobytes(path.stat().st_size), *map(_kilobytes, sizes)]
            yield [f"`{record['name']}`", *own, *times(content)]
    networks = {"LeNet-5": baselines.lenet5(), "CNN 32-64-128": baselines.cnn(), "MLP of the paper": baselines.mlp()}
    for name, network in networks.items():
        content = network.SerializeToString()
        size = _kilobytes(len(content))
        yield [name, NONE, f"{baselines.n_weights(network):,}", NONE, size, NONE, *times(content)]
    try:
        trees = baselines.lightgbm(*(part[: baselines.N_TRAINED] for part in baselines.mnist(data_dir, "train")))
    except ImportError:
        return
    content = trees.SerializeToString()
    correct = session(content).run(["label"], {"features": x})[0] == labels
    yield [
        "LightGBM, MNIST",
        f"{100 * correct.mean():.2f}",
        NONE,
        NONE,
        _kilobytes(len(content)),
        NONE,
        *times(content),
    ]


def _shown(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}"


def _kilobytes(n_bytes: int) -> str:
    return f"{n_bytes / 1000:,.0f} kB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), help="by default all of docs/results")
    parser.add_argument("--write", type=Path, help="Markdown with the markers; default: standard output")
    arguments = parser.parse_args()
    found = []
    for row in rows(Path(os.environ["LCML_DATA_DIR"]), arguments.models):
        found.append(row)
        print(*row, sep="\t", flush=True)
    table = as_table(HEAD, found)
    if arguments.write:
        write_atomically(arguments.write, between_markers(arguments.write.read_text(), table, "frontier"))
    else:
        print(f"\n{table}")


if __name__ == "__main__":
    main()
