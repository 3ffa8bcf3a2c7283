"""Pictures of a training, as PNG bytes. matplotlib is imported when one is drawn, and never opens a window."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lcml.errors import DataError, MissingDependencyError
from lcml.runs.records import RoundRecord

_DPI = 120
_MOST_COUNTS = 20  # classes up to which every cell of a confusion matrix is labelled
_LABEL_HEIGHT = 0.036  # of a panel
_DARK = 0.5  # shade of a cell from which its count is written in white
_PALEST = 0.3  # shade of a single error among many
_LONGEST, _LAST = 24, 8  # characters of a class's name, and of its end where it is cut
_UPRIGHT = 3  # characters of names that stand upright below an axis


@dataclass(frozen=True)
class Point:
    """A model's size and accuracy (a share of 1); measured: False for one that is only quoted."""

    label: str
    n_parameters: int
    accuracy: float
    measured: bool


def learning_curves(rounds: Sequence[RoundRecord], chosen: int | None = None) -> bytes:
    """Log-loss, accuracy and number of parameters over the rounds; the round `chosen` is marked."""
    return png(curves_figure(rounds, chosen))


def confusion_matrix(counts: ArrayLike, classes: Sequence[object], rows: str = "") -> bytes:
    """Counts of shape (n_classes, n_classes): true classes by predicted ones. What is right is blue, by its share of
    the class; an error is red, a single one too. rows: which rows were counted, for the title."""
    return png(confusion_figure(counts, classes, rows))


def accuracy_by_size(panels: Mapping[str, Sequence[Point]]) -> bytes:
    """Accuracy against the number of parameters (logarithmic), one picture per title; quoted points are hollow."""
    return png(size_figure(panels))


def curves_figure(rounds: Sequence[RoundRecord], chosen: int | None = None) -> Any:
    """The matplotlib figure of `learning_curves`: axes for loss, accuracy and parameters."""
    figure = new_figure(12.0, 3.6)
    loss, accuracy, size = figure.subplots(1, 3)
    steps = [report.round for report in rounds]
    marker = "o" if len(rounds) == 1 else None  # one point makes no line
    for axes, title, series in (
        (loss, "log-loss", {"train": "train_log_loss", "validation": "valid_loss"}),
        (accuracy, "accuracy", {"train": "train_accuracy", "validation": "valid_accuracy"}),
        (size, "parameters", {"parameters": "n_parameters"}),
    ):
        for label, field in series.items():
            values = [getattr(report, field) for report in rounds]
            values = [np.nan if value is None else value for value in values]
            axes.plot(steps, values, label=label, marker=marker, color="C2" if axes is size else None)
        if chosen is not None:
            axes.axvline(chosen, color="0.5", linestyle=":", label=f"chosen: round {chosen}")
        axes.set(title=title, xlabel="round")
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        axes.grid(alpha=0.3)
    figure.legend(handles=loss.lines, loc="outside lower center", ncols=3)
    return figure


def size_figure(panels: Mapping[str, Sequence[Point]]) -> Any:
    """The matplotlib figure of `accuracy_by_size`: axes per title."""
    figure = new_figure(8.0 * len(panels), 5.0)
    for axes, (title, points) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for measured, label, colour in ((True, "measured", "C0"), (False, "claimed", "C1")):
            chosen = [point for point in points if point.measured == measured]
            face = {} if measured else {"facecolors": "none"}
            sizes, accuracies = [point.n_parameters for point in chosen], [100 * point.accuracy for point in chosen]
            axes.scatter(sizes, accuracies, label=label, edgecolors=colour, zorder=2, **face)
        axes.set(title=title, xlabel="parameters", ylabel="test accuracy in percent", xscale="log")
        if points:  # whole powers of ten, so that at least two are labelled
            exponents = np.log10([point.n_parameters for point in points])
            axes.set_xlim(*(10.0 ** np.array([np.floor(exponents.min() - 0.1), np.ceil(exponents.max() + 0.1)])))
        low, high = axes.get_ylim()
        heights = _apart([(100 * point.accuracy - low) / (high - low) for point in points])
        for point, height in zip(points, heights, strict=True):
            axes.annotate(
                point.label,
                (point.n_parameters, 100 * point.accuracy),
                xytext=(1.03, height),
                textcoords="axes fraction",
                fontsize="x-small",
                verticalalignment="center",
                color="C0" if point.measured else "C1",
                arrowprops={"arrowstyle": "-", "color": "0.8", "linewidth": 0.7, "zorder": 1, "relpos": (0, 0.5)},
            )
        axes.grid(alpha=0.3)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    return figure


def _apart(heights: Sequence[float]) -> list[float]:
    """Heights of labels, as near to those of their points as they can be in this order with none on another."""
    order = np.argsort(heights, kind="stable").tolist()
    placed, lowest = list(heights), float("-inf")
    for i in order:
        lowest = placed[i] = max(placed[i], lowest + _LABEL_HEIGHT)
    highest = 1.0
    for i in reversed(order):
        placed[i] = min(placed[i], highest)
        highest = placed[i] - _LABEL_HEIGHT
    return placed


def confusion_figure(counts: ArrayLike, classes: Sequence[object], rows: str = "") -> Any:
    """The matplotlib figure of `confusion_matrix`. DataError for a matrix that does not fit the classes."""
    counts, k = np.asarray(counts), len(classes)
    if counts.shape != (k, k):
        raise DataError(f"confusion matrix: expected shape ({k}, {k}) for {k} classes, found {counts.shape}")
    side = min(4.0 + 0.4 * k, 16.0)
    figure = new_figure(side, side)
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    errors = np.where(np.eye(k, dtype=bool), 0, counts)
    shades = np.where(errors > 0, _PALEST + (1 - _PALEST) * np.log1p(errors) / np.log1p(max(errors.max(), 1)), 0)
    axes.imshow(np.ma.masked_where(errors > 0, np.where(errors > 0, 0, shares)), cmap="Blues", vmin=0.0, vmax=1.0)
    axes.imshow(np.ma.masked_where(errors == 0, shades), cmap="Reds", vmin=0.0, vmax=1.0)
    title = f"{rows} rows: " if rows else ""
    figure.suptitle(f"{title}{np.trace(counts):,} of {counts.sum():,} right")  # may be wider than the axes
    axes.set(xlabel="predicted", ylabel="true")
    if k <= _MOST_COUNTS:
        names = [plain(name) for name in classes]
        leaning = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(k), names, **(leaning if max(map(len, names)) > _UPRIGHT else {}))
        axes.set_yticks(range(k), names)
        for (i, j), count in np.ndenumerate(counts):
            if count:
                colour = "white" if (shares if i == j else shades)[i, j] > _DARK else "black"
                size = "small" if 2 * k <= _MOST_COUNTS else "x-small"
                axes.text(j, i, str(count), ha="center", va="center", color=colour, fontsize=size)
    else:
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_major_locator().set_params(integer=True)
        axes.set(xlabel="predicted, by the class's number", ylabel="true, by the class's number")
    return figure


def plain(name: object) -> str:
    """The name of a class as matplotlib draws it for what it is, cut where it is long."""
    text = str(name)
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - _LAST - 1]}…{text[-_LAST:]}"  # names of one kind often differ at their ends
    return text.replace("$", r"\$")


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of so many inches."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "tracking", "drawing pictures") from error
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def png(figure: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": None})  # the same picture is the same bytes
    return content.getvalue()
