"""lcml and its peers on real tables: five folds, the same for all, everything by default.

    OMP_WAIT_POLICY=PASSIVE LCML_DATA_DIR=... python -m tests.bench.tables [--sets credit,vehicle] [--models lcml,ebm]
        [--cache tables.json] [--seconds] [--write docs/benchmarks.md]

`tables/` of the data directory holds Parquet files whose column `target` is to be predicted. What a release of a model
did on a set stands in the cache and is not done again; the tables show all that stands there. `tests.bench.contenders`
says how to install the peers. Seconds compare only where they were taken side by side: measure those with a cache of
their own. Threads that wait must not spin (OMP_WAIT_POLICY) where other work runs beside.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from lcml.files import write_atomically
from lcml.model.metrics import calibration_error
from tests.bench.contenders import CONTENDERS, Contender

SETS = (
    *("penguins", "housevotes84", "soybean", "breastcancer", "pimaindiansdiabetes2", "vehicle", "germancredit"),
    *("attrition", "credit", "mlc-churn", "stackoverflow", "satellite", "income", "lending-club"),
    *("letterrecognition", "adult"),
)
N_FOLDS = 5
LEAST_PROBABILITY = 1e-6
NOT_MEASURED = "-"

Labels = NDArray[np.intp]
Probabilities = NDArray[np.float64]
Entry = dict[str, Any]
"""A model's version, seconds and size of each fold, and per measure that of `all` rows and of each of the `folds`."""
Cache = dict[str, dict[str, Entry]]
"""set -> model -> entry."""


def auc(labels: Labels, p: Probabilities) -> float:
    """The mean over classes of the area under the ROC curve of one class against the rest."""
    if p.shape[1] == 2:
        return float(roc_auc_score(labels, p[:, 1]))
    return float(roc_auc_score(labels[:, None] == np.arange(p.shape[1]), p, average="macro"))


def log_loss(labels: Labels, p: Probabilities) -> float:
    """The mean of -log p(true class), p at least 1e-6."""
    return float(-np.log(np.maximum(p[np.arange(len(labels)), labels], LEAST_PROBABILITY)).mean())


def accuracy(labels: Labels, p: Probabilities) -> float:
    return float((p.argmax(axis=1) == labels).mean())


MEASURES: dict[str, Callable[[Labels, Probabilities], float]] = {
    "AUC": auc,
    "log loss": log_loss,
    "accuracy": accuracy,
    "ECE": lambda labels, p: calibration_error(p, labels),
}
HIGHER_IS_BETTER = {"AUC", "accuracy"}


def measured(contender: Contender, table: Any) -> Entry:
    """The cache's entry: five fits, measured on out-of-fold probabilities."""
    classes, labels = np.unique(table["target"], return_inverse=True)
    frame = contender.encode(table.drop(columns="target"))
    p, seconds, sizes = np.empty((len(labels), len(classes))), [], []
    folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(frame, labels))
    for train, test in folds:
        model = contender.make(frame)
        began = time.perf_counter()
        model.fit(frame.iloc[train], labels[train])
        seconds.append(time.perf_counter() - began)
        p[test] = model.predict_proba(frame.iloc[test])
        sizes.append(int(contender.size(model)))
    found = {
        name: {"all": measure(labels, p), "folds": [measure(labels[test], p[test]) for _, test in folds]}
        for name, measure in MEASURES.items()
    }
    return {"version": contender.version, "seconds": seconds, "size": sizes, **found}


def mean_ranks(values: NDArray[np.float64], higher_is_better: bool) -> NDArray[np.float64]:
    """(n_models,) mean over sets of a model's rank among `values` (n_sets, n_models): 1 is best, ties share."""
    ranks: NDArray[np.float64] = rankdata(-values if higher_is_better else values, axis=1).mean(axis=0)
    return ranks


def markdown(cache: Cache, seconds: bool = False) -> str:
    """A table per measure: a row per set, a column per model, the best of a row in bold; mean ranks below."""
    models = [name for name in CONTENDERS if any(name in of_set for of_set in cache.values())]
    sets = sorted(cache)
    complete = [cache[name] for name in sets if all(model in cache[name] for model in models)]
    titles = [CONTENDERS[model].title for model in models]
    blocks = []
    for measure in (*MEASURES, *(["seconds"] if seconds else [])):
        rows = [[name, *_cells(cache[name], models, measure)] for name in sets]
        if complete:
            values = np.array([[_value(of_set[model], measure) for model in models] for of_set in complete])
            ranks = mean_ranks(values, measure in HIGHER_IS_BETTER)
            best = [_bold(f"{rank:.2f}", rank == ranks.min()) for rank in ranks]
            rows.append([f"mean rank (n = {len(complete)})", *best])
        blocks.append(as_table([measure, *titles], rows))
    units = [f"{CONTENDERS[model].title}: {CONTENDERS[model].unit}" for model in models]
    blocks.append(as_table(["size", *units], [[name, *_sizes(cache[name], models)] for name in sets]))
    releases = {f"{CONTENDERS[m].package} {of_set[m]['version']}" for of_set in cache.values() for m in of_set}
    return "\n\n".join([*blocks, f"Releases: {', '.join(sorted(releases))}."])


def between_markers(text: str, content: str, script: str = "tables") -> str:
    """`text` with `content` in place of what stands between the two markers of the module `script`."""
    first, last = (f"<!-- tests.bench.{script}: {end} -->" for end in ("begin", "end"))
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not end:
        raise SystemExit(f"expected the lines {first} and {last} in the file; add them where the tables belong")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def as_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _value(entry: Entry, measure: str) -> float:
    return float(sum(entry["seconds"]) if measure == "seconds" else entry[measure]["all"])


def _cells(of_set: dict[str, Entry], models: Sequence[str], measure: str) -> Iterator[str]:
    values = {model: _value(of_set[model], measure) for model in models if model in of_set}
    best = (max if measure in HIGHER_IS_BETTER else min)(values.values())
    for model in models:
        if model not in values:
            yield NOT_MEASURED
        elif measure == "seconds":
            yield _bold(f"{values[model]:.1f}", values[model] == best)
        else:
            error = np.std(of_set[model][measure]["folds"], ddof=1) / N_FOLDS**0.5
            yield f"{_bold(_decimals(values[model]), values[model] == best)} ±{_decimals(error)}"


def _sizes(of_set: dict[str, Entry], models: Sequence[str]) -> list[str]:
    return [f"{np.mean(of_set[m]['size']):,.0f}" if m in of_set else NOT_MEASURED for m in models]


def _decimals(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def _bold(text: str, bold: bool) -> str:
    return f"**{text}**" if bold else text


def _cached(path: Path) -> Cache:
    return json.loads(path.read_text()) if path.exists() else {}


def _run(directory: Path, name: str, models: Sequence[str], path: Path) -> None:
    """Measure on one set what the cache lacks; another process may fill the cache beside."""
    table = pd.read_parquet(directory / "tables" / f"{name}.parquet")
    for model in models:
        if _cached(path).get(name, {}).get(model, {}).get("version") != CONTENDERS[model].version:
            entry = measured(CONTENDERS[model], table)
            cache = _cached(path)
            cache.setdefault(name, {})[model] = entry
            write_atomically(path, json.dumps(cache, indent=1))
            values = ", ".join(f"{measure} {_value(entry, measure):.4f}" for measure in (*MEASURES, "seconds"))
            print(f"{name}, {model}: {values}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=_names(SETS), default=SETS)
    parser.add_argument("--models", type=_names(CONTENDERS), default=list(CONTENDERS), help="that run")
    parser.add_argument("--cache", type=Path, default=Path("tables.json"))
    parser.add_argument("--seconds", action="store_true", help="a table of them too, where all ran side by side")
    parser.add_argument("--write", type=Path, help="Markdown with the markers; default: standard output")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of the peers, about gaps and convergence
    absent = {name for name in arguments.models if CONTENDERS[name].version is None}
    if absent:
        print(f"not installed, shown as cached: {', '.join(sorted(absent))}")
    models = [name for name in arguments.models if name not in absent]
    for name in arguments.sets:
        _run(Path(os.environ["LCML_DATA_DIR"]), name, models, arguments.cache)
        if arguments.write:
            text = between_markers(arguments.write.read_text(), markdown(_cached(arguments.cache), arguments.seconds))
            write_atomically(arguments.write, text)
    if not arguments.write:
        print(markdown(_cached(arguments.cache), arguments.seconds))


def _names(known: Iterable[str]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        if unknown := [name for name in text.split(",") if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return text.split(",")

    return names


if __name__ == "__main__":
    main()
