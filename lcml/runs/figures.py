"""Figures of the model that a run keeps, by the names they have in the tracking store."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lcml.arrays import FloatArray
from lcml.model.metrics import Quality
from lcml.model.model import LogisticCircuit
from lcml.tracking import FINAL, MODEL
from lcml.tracking.records import clean_name

MOST_CLASSES = 20
"""Up to so many classes have figures and curves of their own."""


def final_metrics(
    model: LogisticCircuit, rounds: int, train_accuracy: float, valid: Quality, test: Quality | None, seconds: float
) -> dict[str, float]:
    """Sizes, accuracies, F1, log-losses and calibration errors of the model kept. rounds: after which it was best."""
    values = {f"{FINAL}train_accuracy": train_accuracy}
    for rows, measured in (("valid", valid), ("test", test)):
        if measured is not None:
            values[f"{FINAL}{rows}_accuracy"] = measured.accuracy
            values[f"{FINAL}{rows}_f1_macro"] = measured.f1_macro
            values[f"{FINAL}{rows}_loss"] = measured.log_loss
            if measured.ece is not None:
                values[f"{FINAL}{rows}_ece"] = measured.ece
    sizes = {name: float(getattr(model, name)) for name in ("n_elements", "n_or_gates", "n_parameters")}
    return values | {MODEL + name: value for name, value in {**sizes, "round": rounds, "seconds": seconds}.items()}


def class_figures(counts: ArrayLike) -> dict[str, FloatArray]:
    """By name, for every class of a confusion matrix (rows: true, columns: predicted): precision, recall and F1, each 0
    where nothing is predicted as the class, or nothing is of it."""
    matrix = np.asarray(counts, np.float64)
    right, true, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    pairs = {"precision": (right, predicted), "recall": (right, true), "f1": (2 * right, true + predicted)}
    return {
        name: np.divide(part, whole, out=np.zeros_like(part), where=whole > 0) for name, (part, whole) in pairs.items()
    }


def class_metrics(counts: ArrayLike, classes: Sequence[object]) -> dict[str, float]:
    """The figures of every class, `per class f1/cat`, where the classes are few enough to be looked at; their
    numbers come first where the names that MLflow takes are not different."""
    if len(classes) > MOST_CLASSES:
        return {}
    names = [clean_name(str(name).replace("/", "_")) for name in classes]
    if len(set(names)) < len(names):  # "<50" and ">50" are both "_50"
        names = [f"{k} {name}" for k, name in enumerate(names)]
    return {
        f"per class {figure}/{name}": float(value)
        for figure, values in class_figures(counts).items()
        for name, value in zip(names, values, strict=True)
    }


def class_lines(counts: ArrayLike, classes: Sequence[object]) -> str:
    """The figures of every class as lines of JSON objects."""
    figures, examples = class_figures(counts), np.asarray(counts).sum(axis=1)
    lines = []
    for k, name in enumerate(classes):
        values = {figure: float(of_all[k]) for figure, of_all in figures.items()}
        lines.append(json.dumps({"class": str(name), "n_examples": int(examples[k]), **values}) + "\n")
    return "".join(lines)
