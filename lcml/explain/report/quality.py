"""How good the model is on the rows of the report, in figures with intervals, curves and tables."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from lcml.arrays import FloatArray
from lcml.explain.report.charts import Plot
from lcml.explain.report.drawing import Drawing, Image, Rect, Text, fitting
from lcml.explain.report.html import figure, figures, heading, said, section, table
from lcml.explain.report.measured import Measured
from lcml.model.intervals import Interval, auc_intervals, calibration, log_loss, wilson
from lcml.model.metrics import calibration_error, confusion_matrix

_MOST_COUNTS = 20  # classes up to which every cell of a confusion matrix is a square with its count
_MOST_LINES = 50  # classes that have a line in the table
_MOST_CONFUSED = 12
_CELL, _SIDE = 26.0, 420.0
_THRESHOLDS = 101
_DARK = 0.55


def quality_section(found: Measured) -> tuple[str, str, str]:
    """Figures, calibration, confusion, classes, and of two classes the choice of a threshold."""
    counts = confusion_matrix(found.predicted, found.labels, len(found.classes))
    areas = auc_intervals(found.probabilities, found.labels)
    error = calibration_error(found.probabilities, found.labels)
    cards = {
        "accuracy": wilson(int(np.trace(counts)), found.n_examples),
        "log-loss": log_loss(found.of_truth),
        "AUC" if len(found.classes) == 2 else "mean AUC, one class against the others": areas[0],
        "expected calibration error": Interval(error, np.nan, np.nan),
    }
    shown = "".join(f"<div><b>{_figure(one)}</b><span>{name}{_ends(one)}</span></div>" for name, one in cards.items())
    drawn = [figure(_calibration(found), "Numbers: examples in the bin."), _confusion(found, counts)]
    if len(found.classes) == 2:
        drawn.insert(1, figure(_thresholds(found), f"What is called {found.classes[1]} from each threshold on."))
    warning = f'<p class="warning">{escape(found.warning)}</p>' if found.warning else ""
    return section(
        "quality",
        "How good it is",
        warning,
        f'<div class="cards">{shown}</div>',
        said(
            f"{found.n_examples:,} {found.rows} rows.",
            "Intervals hold the truth in 95 of 100 samples: of accuracy, precision and recall Wilson's, of the "
            "log-loss 1.96 standard errors, of areas under the ROC curve DeLong's (none where all pairs are in order).",
        ),
        figures(drawn),
        _classes(found, counts, areas[1]),
    )


def curves_section(history: Mapping[str, Any]) -> tuple[str, str, str]:
    """Accuracy, log-loss and size over the rounds; a sentence where the model does not hold them."""
    rounds = np.array(history.get("round", []), np.float64)
    series = {name: [np.nan if v is None else float(v) for v in values] for name, values in history.items()}
    if not len(rounds):
        return section("learning", "How it learned", said("The model does not hold the figures of its rounds."))
    drawn = []
    for title, lines in (
        ("accuracy", {"training": "train_accuracy", "validation": "valid_accuracy"}),
        ("log-loss", {"training": "train_log_loss", "validation": "valid_loss"}),
        ("parameters", {"parameters": "n_parameters"}),
    ):
        known = {name: np.array(series[key]) for name, key in lines.items() if key in series}
        known = {name: values for name, values in known.items() if np.isfinite(values).any()}
        if not known:
            continue
        every = np.concatenate(list(known.values()))
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values in known.items())
        span = float(np.nanmin(every)), float(np.nanmax(every))
        plot = Plot(f"{title} over {len(rounds)} rounds, at the end {last}", _span(rounds), span, ("round", title))
        for colour, (name, values) in enumerate(known.items()):
            is_there = np.isfinite(values)
            plot.line(rounds[is_there], values[is_there], f"c{colour}", name)
        plot.key([(name, f"c{colour}") for colour, name in enumerate(known)])
        drawn.append(figure(plot))
    return section("learning", "How it learned", figures(drawn))


def _span(values: FloatArray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _figure(one: Interval) -> str:
    return f"{one.value:.4f}" if np.isfinite(one.value) else "-"


def _ends(one: Interval) -> str:
    return f" ({one.low:.4f} to {one.high:.4f})" if np.isfinite(one.low) else ""


def _calibration(found: Measured) -> Plot:
    binned = calibration(found.probabilities, found.labels)
    two = len(found.classes) == 2
    said_of = f"probability of {found.classes[1]}" if two else "probability of the class predicted"
    share = f"share of {found.classes[1]}" if two else "share that is right"
    points = ", ".join(f"{x:.2f}: {y:.2f}" for x, y in zip(binned.said, binned.right, strict=True))
    plot = Plot(f"Calibration, said and found: {points}", (0, 1), (0, 1), (said_of, share), width=300, height=260)
    plot.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "muted", dashed=True)
    plot.line(binned.said, binned.right, "c0")
    titles = [
        f"{n} examples: {y:.3f} where {x:.3f} was said"
        for x, y, n in zip(binned.said, binned.right, binned.sizes, strict=True)
    ]
    plot.dots(binned.said, binned.right, "c0", titles)
    for x, y, n in zip(binned.said, binned.right, binned.sizes, strict=True):
        across, down = plot.at(x, y)
        left, down = x > 0.5, down - 5 if y < 0.9 else down + 12
        plot.add(Text(across - 6 if left else across + 6, down, str(n), "end" if left else "start", "muted", 9.0))
    return plot


def _thresholds(found: Measured) -> Plot:
    """Precision, recall and accuracy of calling positive what has at least that probability."""
    positive, scores = found.labels == 1, found.probabilities[:, 1]
    at = np.linspace(0, 1, _THRESHOLDS)
    called = scores[None, :] >= at[:, None]
    right = (called & positive).sum(axis=1)
    curves = {
        "precision": right / np.where(called.any(axis=1), called.sum(axis=1), np.nan),
        "recall": right / max(1, positive.sum()),
        "accuracy": (called == positive).mean(axis=1),
    }
    best = int(curves["accuracy"].argmax())
    label = f"Precision, recall and accuracy by threshold; accuracy is largest, {curves['accuracy'][best]:.4f}, at "
    own = found.model.threshold
    label += f"{at[best]:.2f}, and {float(np.mean((scores > own) == positive)):.4f} at {own:.4g}, the model's"
    plot = Plot(label, (0, 1), (0, 1), (f"threshold of the probability of {found.classes[1]}", ""), height=260)
    for colour, (name, values) in enumerate(curves.items()):
        known = np.isfinite(values)
        plot.line(at[known], values[known], f"c{colour}", name)
    plot.key([(name, f"c{colour}") for colour, name in enumerate(curves)])
    return plot


def _confusion(found: Measured, counts: FloatArray) -> str:
    k = len(found.classes)
    label = f"Confusion matrix: {int(np.trace(counts)):,} of {int(counts.sum()):,} right"
    errors = np.where(np.eye(k, dtype=bool), 0, counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    shades = np.where(errors > 0, 0.3 + 0.7 * np.log1p(errors) / np.log1p(max(errors.max(), 1)), 0)
    if k > _MOST_COUNTS:
        rgba = np.zeros((k, k, 4), np.uint8)
        rgba[...] = (196, 68, 28, 0)
        rgba[..., 3] = np.rint(255 * shades)
        rgba[np.arange(k), np.arange(k)] = [(22, 104, 184, int(255 * share)) for share in np.diag(shares)]
        drawing = Drawing(_SIDE, _SIDE, label)
        drawing.add(Rect(0, 0, _SIDE, _SIDE, stroke="rule"), Image(0, 0, _SIDE, _SIDE, rgba))
        most = [(int(i), int(j)) for i, j in zip(*_largest(errors, _MOST_CONFUSED), strict=True) if errors[i, j]]
        lines = [(found.classes[i], found.classes[j], int(errors[i, j])) for i, j in most]
        caption = f"Rows: the {k} true classes in their order; columns: what is predicted."
        return figure(drawing, caption) + f"<div>{table(('true', 'predicted', 'most often'), lines)}</div>"
    left, top, below = 90.0, 40.0, min(66.0, 7.0 * max(map(len, found.classes)))
    drawing = Drawing(max(left + k * _CELL + 20, 300.0), top + k * _CELL + 16 + below, label)
    for (i, j), count in np.ndenumerate(counts):
        shade = float((shares if i == j else shades)[i, j])
        x, y = left + j * _CELL, top + i * _CELL
        title = f"true {found.classes[i]}, predicted {found.classes[j]}: {count}"
        drawing.add(
            Rect(x, y, _CELL - 1, _CELL - 1, "plus" if i == j else "minus", opacity=max(shade, 0.03), title=title)
        )
        if count:
            fill = "paper" if shade > _DARK else "ink"
            drawing.add(Text(x + _CELL / 2, y + _CELL / 2 + 4, _short(int(count)), "middle", fill, 10.0, title))
    for i, name in enumerate(found.classes):
        drawing.add(Text(left - 6, top + (i + 0.6) * _CELL, fitting(name, 78), "end", "muted", title=name))
        short = fitting(name, 60)
        at = left + (i + 0.5) * _CELL
        drawing.add(Text(at + 4, top + k * _CELL + 8, short, "end", "muted", title=name, upward=True))
    drawing.add(Text(20, 14, label), Text(20, 30, "true class by row, predicted by column", fill="muted"))
    return figure(drawing)


def _largest(values: FloatArray, n: int) -> tuple[Any, ...]:
    return np.unravel_index(np.argsort(-values, axis=None, kind="stable")[:n], values.shape)


def _short(count: int) -> str:
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"


def _classes(found: Measured, counts: FloatArray, areas: Mapping[int, Interval]) -> str:
    """A line per class; of many those with the lowest recall."""
    right, true, predicted = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    order: Sequence[int] = range(len(found.classes))
    note = ""
    if len(found.classes) > _MOST_LINES:
        recall = right / np.where(true > 0, true, np.nan)
        order = np.argsort(recall, kind="stable")[:_MOST_LINES].tolist()  # NaN last
        note = said(f"The {_MOST_LINES} of {len(found.classes)} classes with the lowest recall.")
    lines = []
    for k in order:
        precision, recalled = (wilson(int(right[k]), int(n[k])) if n[k] else None for n in (predicted, true))
        both = int(true[k] + predicted[k])
        f1 = 2 * float(right[k]) / both if both else None
        shares = (*_told(precision), *_told(recalled), f1, *_told(areas.get(k)))
        lines.append((found.classes[k], int(true[k]), *shares))
    head = ("class", "examples", "precision", "95%", "recall", "95%", "F1", "AUC", "95%")
    return heading("Class by class") + note + table(head, lines)


def _told(one: Interval | None) -> tuple[float | None, str | None]:
    if one is None:
        return None, None
    return one.value, f"{one.low:.4f} to {one.high:.4f}" if np.isfinite(one.low) else None
