"""Pictures of a training, as PNG bytes. matplotlib is imported when one is drawn, and never opens a window."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from lcml.errors import DataError, MissingDependencyError

_DPI = 120
_MOST_COUNTS = 20  # classes up to which every cell of a confusion matrix is labelled
_PANEL_POINTS, _LABEL_POINTS = 260.0, 9.0  # heights of what a panel's points span, and of a label
_DARK = 0.5  # shade of a cell from which its count is written in white
_PALEST = 0.3  # shade of a single error among many
_LONGEST = 24  # characters of a class's name


class Round(Protocol):
    """The figures of one round of training that are drawn."""

    @property
    def round(self) -> int: ...
    @property
    def n_parameters(self) -> int: ...
    @property
    def train_log_loss(self) -> float | None: ...
    @property
    def valid_loss(self) -> float: ...
    @property
    def train_accuracy(self) -> float: ...
    @property
    def valid_accuracy(self) -> float: ...


@dataclass(frozen=True)
class Point:
    """A model's size and accuracy (a share of 1); measured: False for one that is only quoted."""

    label: str
    n_parameters: int
    accuracy: float
    measured: bool


def learning_curves(rounds: Sequence[Round], chosen: int | None = None) -> bytes:
    """Log-loss, accuracy and number of parameters over the rounds; the round `chosen` is marked."""
    return png(curves_figure(rounds, chosen))


def confusion_matrix(counts: ArrayLike, classes: Sequence[object], rows: str = "") -> bytes:
    """Counts of shape (n_classes, n_classes): true classes by predicted ones. What is right is blue, by its share of
    the class; an error is red, a single one too. rows: which rows were counted, for the title."""
    return png(confusion_figure(counts, classes, rows))


def accuracy_by_size(panels: Mapping[str, Sequence[Point]]) -> bytes:
    """Accuracy against the number of parameters (logarithmic), one picture per title; quoted points are hollow."""
    return png(size_figure(panels))


def curves_figure(rounds: Sequence[Round], chosen: int | None = None) -> Any:
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
            axes.plot(steps, [np.nan if value is None else value for value in values], label=label, marker=marker)
        if chosen is not None:
            axes.axvline(chosen, color="0.5", linestyle=":", label=f"chosen: round {chosen}")
        axes.set(title=title, xlabel="round")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        if len(axes.lines) > 1:
            axes.legend()
    return figure


def size_figure(panels: Mapping[str, Sequence[Point]]) -> Any:
    """The matplotlib figure of `accuracy_by_size`: axes per title."""
    figure = new_figure(8.0 * len(panels), 5.0)
    for axes, (title, points) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        span = 100 * float(np.ptp([point.accuracy for point in points])) if points else 0.0
        for measured, label in ((True, "measured"), (False, "claimed")):
            chosen = [point for point in points if point.measured == measured]
            face = {} if measured else {"facecolors": "none"}
            sizes, accuracies = [point.n_parameters for point in chosen], [100 * point.accuracy for point in chosen]
            axes.scatter(sizes, accuracies, label=label, edgecolors="C0" if measured else "C1", **face)
            for point, rise in zip(chosen, _rises(accuracies, span), strict=True):
                axes.annotate(
                    point.label,
                    (point.n_parameters, 100 * point.accuracy),
                    xytext=(-6 if measured else 6, rise - 3),
                    textcoords="offset points",
                    fontsize="x-small",
                    horizontalalignment="right" if measured else "left",
                )
        axes.set(title=title, xlabel="parameters", ylabel="test accuracy in percent", xscale="log")
        axes.margins(x=0.4)  # room for labels: left of what was measured, right of what is claimed
        axes.grid(alpha=0.3)
        axes.legend(loc="center left")
    return figure


def _rises(accuracies: Sequence[float], span: float) -> list[float]:
    """Points (1/72 inch) by which labels must rise so that none is on the one below it; span: of all accuracies."""
    scale = _PANEL_POINTS / max(span, 1e-9)
    rises, free = [0.0] * len(accuracies), float("-inf")
    for i in np.argsort(accuracies, kind="stable").tolist():
        rises[i] = max(0.0, free - scale * accuracies[i])
        free = scale * accuracies[i] + rises[i] + _LABEL_POINTS
    return rises


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
    axes.set(xlabel="predicted", ylabel="true", title=f"{title}{np.trace(counts)} of {counts.sum()} right")
    if k <= _MOST_COUNTS:
        axes.set_xticks(range(k), [plain(name) for name in classes], rotation=45)
        axes.set_yticks(range(k), [plain(name) for name in classes])
        for (i, j), count in np.ndenumerate(counts):
            if count:
                colour = "white" if (shares if i == j else shades)[i, j] > _DARK else "black"
                axes.text(j, i, str(count), ha="center", va="center", color=colour, fontsize="small")
    return figure


def plain(name: object) -> str:
    """The name of a class as matplotlib draws it for what it is, cut where it is long."""
    text = str(name)
    return (text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…").replace("$", r"\$")


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
    """The figure's picture."""
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": None})  # the same picture is the same bytes
    return content.getvalue()
