"""How time and memory of learning grow with examples, elements, variables and classes: log-log slopes and a plot.

    LCML_DATA_DIR=... python -m tests.bench.scale --output scale        # all; or --axis variables

Every point is a process of its own, for its own peak memory; it leaves a line of JSON in OUTPUT/points.jsonl,
and a point that is there is not measured again. Times are those of one round's phases, seconds on this machine: only
their slopes travel.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

AXES: dict[str, tuple[int, ...]] = {
    "examples": (6_000, 60_000, 600_000),
    "elements": (2_000, 6_000, 20_000, 60_000, 100_000),
    "variables": (64, 256, 1_024, 4_096, 10_000),
    "classes": (2, 5, 10, 30, 100),
}
PHASES = ("features", "pass", "score", "split", "peak_mb")
_N_EXAMPLES, _N_VARIABLES, _N_CLASSES = 4_000, 400, 10


def measure(axis: str, size: int) -> dict[str, Any]:
    """The seconds of features, a pass for loss and gradient, scoring and splitting, and the peak memory in MB."""
    from lcml.backend import get_backend
    from lcml.circuits import vtree as vtrees
    from lcml.circuits.parts import initial_part
    from lcml.circuits.views import IdentityView
    from lcml.learning.objective import Objective
    from lcml.learning.parameters import Parametrisation
    from lcml.learning.scoring import score_splits
    from lcml.learning.selection import apply_within, choose_splits
    from lcml.passes.feature_store import FeatureStore

    backend, generator = get_backend("auto"), np.random.default_rng(0)
    examples, labels, n_classes = data(axis, size, generator)
    n_variables = examples.shape[1]
    parts: Any = [initial_part(IdentityView(n_variables), vtrees.balanced(n_variables))]
    _warm_up(backend)
    seconds: dict[str, float] = {}
    store = FeatureStore(parts, examples, backend, precision="fixed16")

    def objective() -> Objective:
        return Objective(store, labels, n_classes, l2=1e-4, parametrisation=Parametrisation(store.parts, literals=True))

    wanted = size if axis == "elements" else 0
    while True:
        now = objective()
        theta = now.zeros()
        theta.weights[:] = generator.normal(size=theta.weights.shape) * 0.01
        began = time.perf_counter()
        candidates = score_splits(now, theta, chunks=range(min(8, store.n_chunks)))
        seconds["score"] = time.perf_counter() - began
        present = sum(part.circuit.n_elements for part in store.parts)
        room = min(round(0.5 * present), max(1, wanted - present)) if wanted else round(0.3 * present)
        began = time.perf_counter()
        _, grown = apply_within(store.parts, choose_splits(store.parts, candidates, room), None)
        seconds["split"] = time.perf_counter() - began
        store.grow(grown)
        if sum(part.circuit.n_elements for part in store.parts) >= 0.95 * wanted:
            break
    parts = store.parts
    del store, now  # training holds no two stores
    began = time.perf_counter()
    store = FeatureStore(parts, examples, backend, precision="fixed16")
    seconds["features"] = time.perf_counter() - began
    now = objective()
    with backend.single_threaded_blas():
        began = time.perf_counter()
        for _ in range(3):
            now.value_and_gradient(now.zeros())
        seconds["pass"] = (time.perf_counter() - began) / 3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    n_elements = sum(part.circuit.n_elements for part in store.parts)
    return {"axis": axis, "size": n_elements if axis == "elements" else size, **seconds, "peak_mb": peak}


def data(axis: str, size: int, generator: np.random.Generator) -> tuple[Any, Any, int]:
    """Encoded examples, labels and the number of classes of a point."""
    if axis == "examples":
        from lcml.data import load_splits
        from lcml.inputs.augmentation import Augmentation, augmented

        train = load_splits("mnist", valid_fraction=0.01).train
        copies = max(0, -(-size // len(train.labels)) - 1)
        images: Any = np.asarray(train.features)
        if copies:
            images = np.asarray(augmented(images, (1, 28, 28), Augmentation(copies=copies, shift=2), 0))
        return (images[:size] / np.float32(255)), np.tile(train.labels, copies + 1)[:size], 10
    n_variables = size if axis == "variables" else _N_VARIABLES
    n_classes = size if axis == "classes" else _N_CLASSES
    examples = (generator.random((_N_EXAMPLES, n_variables)) < 0.5).astype(np.float32)
    return examples, generator.integers(0, n_classes, _N_EXAMPLES), n_classes


def _warm_up(backend: Any) -> None:
    from lcml.circuits import vtree as vtrees
    from lcml.circuits.parts import initial_part
    from lcml.circuits.views import IdentityView
    from lcml.passes.feature_store import FeatureStore

    part = initial_part(IdentityView(4), vtrees.balanced(4))
    FeatureStore([part], np.zeros((2, 4), np.float32), backend, precision="fixed16")


def slopes(points: list[dict[str, Any]]) -> dict[str, float]:
    """By phase, the slope of log time (or memory) over log size."""
    sizes = np.log([point["size"] for point in points])
    return {phase: float(np.polyfit(sizes, np.log([point[phase] for point in points]), 1)[0]) for phase in PHASES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("scale"))
    parser.add_argument("--axis", choices=tuple(AXES), action="append")
    parser.add_argument("--point", nargs=2, metavar=("AXIS", "SIZE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        print(json.dumps(measure(arguments.point[0], int(arguments.point[1]))))
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "points.jsonl"
    known = {
        (p["axis"], p["asked"]): p for p in map(json.loads, path.read_text().splitlines() if path.exists() else [])
    }
    for axis in arguments.axis or AXES:
        points = []
        for size in AXES[axis]:
            if (axis, size) not in known:
                command = [sys.executable, "-m", "tests.bench.scale", "--point", axis, str(size)]
                out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                known[axis, size] = json.loads(out.splitlines()[-1]) | {"asked": size}
                with path.open("a") as lines:
                    lines.write(json.dumps(known[axis, size]) + "\n")
            points.append(known[axis, size])
            print(axis, size, {phase: round(points[-1][phase], 3) for phase in PHASES}, flush=True)
        print(axis, "slopes", {phase: round(slope, 2) for phase, slope in slopes(points).items()}, flush=True)
    plot(list(known.values()), arguments.output / "scale.png")


def plot(points: list[dict[str, Any]], path: Path) -> None:
    """Seconds by phase over size, log-log, a panel per axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    axes = [axis for axis in AXES if any(point["axis"] == axis for point in points)]
    figure, panels = plt.subplots(1, len(axes), figsize=(4 * len(axes), 3.2), squeeze=False, layout="constrained")
    for panel, axis in zip(panels[0], axes, strict=True):
        chosen = sorted((point for point in points if point["axis"] == axis), key=lambda point: point["size"])
        for phase in PHASES[:-1]:
            panel.loglog([p["size"] for p in chosen], [p[phase] for p in chosen], marker="o", label=phase)
        panel.set(xlabel=axis, ylabel="seconds")
        panel.grid(True, which="both", alpha=0.3)
    figure.legend(handles=panels[0][0].lines, loc="outside lower center", ncols=len(PHASES))
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
