"""Pictures of how good probabilities are: ROC, precision against recall, calibration. As PNG bytes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.model.intervals import calibration
from lcml.model.metrics import calibration_error
from lcml.runs.figures import MOST_CLASSES
from lcml.runs.plots import new_figure, plain, png

_SIDE = 5.0  # inches
_COLOURS = 10  # curves before colours come again, dashed, and the legend stands beside them
_LEGEND = 2.5  # inches
_ROOM = (-0.05, 1.15)  # for what stands right of a point at 1

Codes = NDArray[np.int64]
Truth = NDArray[np.bool_]


def quality_pictures(
    probabilities: FloatArray, labels: Codes, classes: Sequence[object], rows: str
) -> Iterator[tuple[str, bytes]]:
    """Name and content of every picture, for probabilities (n_examples, n_classes) and class codes (n_examples,).

    Of two classes the second one is the positive one; of more, each is set against all others, or beyond MOST_CLASSES
    all decisions are taken together. rows: of which rows these are, for the titles.
    """
    figures = {"roc": roc_figure, "precision_recall": precision_recall_figure, "calibration": calibration_figure}
    for name, draw in figures.items():
        yield name, png(draw(probabilities, labels, classes, rows))


def roc_figure(probabilities: FloatArray, labels: Codes, classes: Sequence[object], rows: str) -> Any:
    """True positive rate against false positive rate at every threshold, with the area below."""

    def curve(truth: Truth, scores: FloatArray) -> tuple[FloatArray, FloatArray, str]:
        right, wrong = (np.append(0, counts) / counts[-1] for counts in _positives(truth, scores))
        return wrong, right, f"area {np.trapezoid(right, wrong):.3f}"

    figure, axes = _curves(_decisions(probabilities, labels, classes), curve)
    axes.plot([0, 1], [0, 1], color="0.7", linestyle=":")
    axes.set(title=f"ROC, {rows} rows", xlabel="false positive rate", ylabel="true positive rate")
    return figure


def precision_recall_figure(probabilities: FloatArray, labels: Codes, classes: Sequence[object], rows: str) -> Any:
    """Precision against recall at every threshold, with the average precision."""

    def curve(truth: Truth, scores: FloatArray) -> tuple[FloatArray, FloatArray, str]:
        right, wrong = _positives(truth, scores)
        precision, recall = np.append(1, right / (right + wrong)), np.append(0, right / right[-1])
        return recall[::-1], precision[::-1], f"average {np.diff(recall) @ precision[1:]:.3f}"

    figure, axes = _curves(_decisions(probabilities, labels, classes), curve)
    axes.set(title=f"precision and recall, {rows} rows", xlabel="recall", ylabel="precision")
    return figure


def calibration_figure(probabilities: FloatArray, labels: Codes, classes: Sequence[object], rows: str) -> Any:
    """How often what is said with a probability is right, in bins of that probability: of the second of two classes, of
    more the one predicted. The title has the expected calibration error."""
    means, shares, sizes = calibration(probabilities, labels)
    error = calibration_error(probabilities, labels)
    words = "probability of the class predicted", "share that is right"
    if len(classes) == 2:
        words = f"probability of {plain(classes[1])}", f"share of {plain(classes[1])}"
    figure = new_figure(_SIDE, _SIDE)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linestyle=":")
    axes.plot(means, shares, marker="o")
    for x, y, n in zip(means, shares, sizes, strict=True):
        axes.annotate(str(n), (x, y), xytext=(5, -10), textcoords="offset points", fontsize="x-small")
    axes.set(title=f"calibration, {rows} rows: error {error:.3f}", xlabel=words[0], ylabel=words[1])
    axes.set(xlim=_ROOM, ylim=(-0.1, 1.05))
    axes.grid(alpha=0.3)
    return figure


def _decisions(
    probabilities: FloatArray, labels: Codes, classes: Sequence[object]
) -> Iterator[tuple[str, Truth, FloatArray]]:
    """Name, truth and score of every curve; none for a class that no example is of, or all are."""
    k = len(classes)
    if k > MOST_CLASSES:
        yield "all classes", (labels[:, None] == np.arange(k)).ravel(), probabilities.ravel()
        return
    for code in (1,) if k == 2 else range(k):
        truth = labels == code
        if truth.any() and not truth.all():
            yield f"class {plain(classes[code])}", truth, probabilities[:, code]


def _positives(truth: Truth, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The true and the false ones at every score as the threshold, from the highest score down."""
    _, place = np.unique(-scores, return_inverse=True)
    return np.cumsum(np.bincount(place, truth)), np.cumsum(np.bincount(place, ~truth))


def _curves(
    decisions: Iterator[tuple[str, Truth, FloatArray]],
    curve: Callable[[Truth, FloatArray], tuple[FloatArray, FloatArray, str]],
) -> tuple[Any, Any]:
    drawn = list(decisions)
    beside = len(drawn) > _COLOURS
    figure = new_figure(_SIDE + _LEGEND * beside, _SIDE)
    axes = figure.subplots()
    for n, (name, truth, scores) in enumerate(drawn):
        x, y, measure = curve(truth, scores)
        axes.plot(x, y, label=f"{name}: {measure}", linestyle="-" if n < _COLOURS else "--")
    axes.grid(alpha=0.3)
    if beside:
        figure.legend(fontsize="x-small", loc="outside right upper")
    elif drawn:
        axes.legend(fontsize="x-small")
    else:
        axes.text(0.5, 0.8, "all rows are of one class", ha="center", transform=axes.transAxes)
    return figure, axes
