"""Missing inputs at prediction, and the generative start, measured.

    LCML_DATA_DIR=... python -m tests.bench.missing [mnist fashion-mnist vehicle ...]

Accuracy on test rows of which a share of the inputs is missing at random, by models trained on whole rows: the mean (of
text the most frequent value) put in for what is missing, the policies `prior` and `expected`, and for tables the trees
of the default structure with `prior`; of tables the mean and standard deviation over several divisions. Then iterations
and log losses of the first fit from zeros and from the posterior of one distribution per class.
"""

import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lcml import LogisticCircuitClassifier
from lcml.data import load_splits
from lcml.data.named import DATA_DIR_VARIABLE
from lcml.inputs.table import from_frame

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
IMAGES = ("mnist", "fashion-mnist")
TABLES = ("vehicle", "satellite", "germancredit", "letterrecognition")
N_TRAIN, N_TEST = 6000, 1000
N_SEEDS = 5
"""Divisions of a table, each with values of its own removed."""
FEW: dict[str, Any] = {"rounds": 4, "l2_path": (1e-3, 1e-4), "link": "softmax"}


def image_rows(name: str) -> tuple[Any, ...]:
    """Training and test features and labels, the first so many of a random order."""
    splits = load_splits(name, seed=0)
    train, test = splits.train, splits.test
    order = np.random.default_rng(0)
    chosen = order.permutation(len(train))[:N_TRAIN], order.permutation(len(test))[:N_TEST]
    train, test = (part.select(np.sort(rows)) for part, rows in zip((train, test), chosen, strict=True))
    return np.asarray(train.features[:]), train.labels, np.asarray(test.features[:], np.float64), test.labels


def table_rows(name: str, seed: int) -> tuple[Any, ...]:
    frame = pd.read_parquet(Path(os.environ[DATA_DIR_VARIABLE], "tables", f"{name}.parquet")).sample(
        frac=1, random_state=seed
    )
    n_test = min(N_TEST, len(frame) // 4)
    frame = frame.iloc[: n_test + N_TRAIN]
    x, y = frame.drop(columns="target"), frame["target"].astype(str).to_numpy()
    assert not x.isna().any(axis=None)
    return x.iloc[n_test:], y[n_test:], x.iloc[:n_test], y[:n_test]


def without(x: Any, share: float, seed: int) -> Any:
    """x with so many of its values missing."""
    gone = np.random.default_rng(seed + 1).random(x.shape) < share
    if isinstance(x, pd.DataFrame):
        return x.mask(gone)
    return np.where(gone, np.nan, x)


def imputed(x: Any, train: Any) -> Any:
    """x with the mean, of text the most frequent value, of training for what is missing."""
    if not isinstance(x, pd.DataFrame):
        return np.where(np.isnan(x), train.mean(axis=0), x)
    numeric = [pd.api.types.is_numeric_dtype(train[column]) for column in train]
    values = {
        c: train[c].mean() if is_number else train[c].mode()[0] for c, is_number in zip(train, numeric, strict=True)
    }
    return x.astype({c: float for c, is_number in zip(train, numeric, strict=True) if is_number}).fillna(values)


def accuracies(name: str, runs: Iterable[tuple[Any, ...]], **options: Any) -> None:
    """Mean and, of several runs, standard deviation of the accuracy (%) by policy and share."""
    found: dict[str, list[list[float]]] = {}
    for seed, (x, y, x_test, y_test) in enumerate(runs):
        model = LogisticCircuitClassifier(**FEW, random_state=seed, **options).fit(x, y)
        features = from_frame(x) if isinstance(x, pd.DataFrame) else x
        plain = model.model_
        for policy in ["mean", "prior"] + ["expected"] * (options.get("structure") != "auto"):
            model.model_ = plain if policy == "mean" else plain.with_missing(policy, features)  # type: ignore[arg-type]
            asked = [without(x_test, share, seed) for share in (0.0, *SHARES)]
            given = [imputed(each, x) for each in asked] if policy == "mean" else asked
            found.setdefault(policy, []).append([100 * model.score(each, y_test) for each in given])
    for policy, scores in found.items():
        spread = np.std(scores, axis=0, ddof=1) if len(scores) > 1 else np.zeros(len(scores[0]))
        pairs = zip(np.mean(scores, axis=0), spread, strict=True)
        told = (f"{mean:.1f}" + f" ± {sd:.1f}" * (len(scores) > 1) for mean, sd in pairs)
        print("|", name, options, "|", policy, "|", " | ".join(told), "|", flush=True)


def starts(name: str, rows: tuple[Any, ...], **options: Any) -> None:
    """Iterations until the first fit converges, and log losses after few of them."""
    x, y, *_ = rows
    for init in ("zero", "generative"):
        for iterations in (2, 5, 20, 200):
            settings = {
                "rounds": 0,
                "round_iterations": iterations,
                "l2": 1e-4,
                "l2_path": (1e-4,),
                "final_iterations": 1,
            }
            model = LogisticCircuitClassifier(init=init, **(FEW | settings), **options).fit(x, y)
            first = model.history_[0]
            print(
                name, options, init, f"{first.n_iterations} iterations, "
                f"train log loss {first.train_log_loss:.4f}, valid {first.valid_loss:.4f} "
                f"accuracy {100 * first.valid_accuracy:.1f}", flush=True,
            )  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or ["digits", *IMAGES, *TABLES]:
        if name in TABLES:
            for structure in ("splits", "auto"):
                accuracies(name, (table_rows(name, seed) for seed in range(N_SEEDS)), structure=structure)
            continue
        rows = image_rows(name)
        shape = (8, 8) if name == "digits" else (28, 28)
        starts(name, rows, image_shape=shape)
        for encoder in ("scale", "boolean"):
            accuracies(name, [rows], image_shape=shape, encoder=encoder)


if __name__ == "__main__":
    main()
