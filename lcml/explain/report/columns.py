"""What every column of a table adds, and what pairs of them do: curves, bars, heat maps, importances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lcml.arrays import FloatArray
from lcml.explain.report.charts import Plot, heat_map, padded
from lcml.explain.report.drawing import Drawing, Rect, Text, fitting
from lcml.explain.report.html import figure, figures, heading, said, section, table
from lcml.explain.report.measured import MOST_CLASSES, Measured
from lcml.explain.terms import Axis, Term, column_axis, model_terms, term_at, term_values
from lcml.inputs.column import shown
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoding import short_number

MOST_CURVES, MOST_PAIRS = 24, 8
"""So many columns and pairs are drawn, those of the largest importance."""

_MOST_SETS = 5  # classes with a curve in one picture
_MOST_CODES = 12  # along a side of a heat map
_MOST_LINES = 40
_BARS = 20


@dataclass(frozen=True, eq=False)
class Terms:
    """A logit as a sum, (n, n_sets) of n examples:

        logits = base + sum over drawn terms of (term - its mean) + rest

    means (n_terms, n_sets) and importance (n_terms,), the mean over examples and weight sets of |term - its mean|, are
    of a sample; base = bias + all means. drawn: the terms that have pictures, curves first; rest: mean |rest|, by set.
    """

    terms: Sequence[Term]
    means: FloatArray
    importance: FloatArray
    base: FloatArray
    drawn: Sequence[int]
    rest: FloatArray


def split_terms(found: Measured) -> Terms:
    """The terms of a model of a table, over a sample of its examples."""
    model, terms, n = found.model, model_terms(found.model), len(found.sample)
    means = np.zeros((len(terms), len(model.bias)))
    for _, values in found.chunks():
        means += [added.sum(axis=0) / n for added in term_values(model, terms, values)]
    importance = np.zeros(len(terms))
    for _, values in found.chunks():
        of_terms = zip(term_values(model, terms, values), means, strict=True)
        importance += [np.abs(added - mean).mean(axis=1).sum() / n for added, mean in of_terms]
    order = np.argsort(-importance, kind="stable").tolist()
    drawn = [
        *[t for t in order if len(terms[t].columns) == 1][:MOST_CURVES],
        *[t for t in order if len(terms[t].columns) == 2 and importance[t] > 0][:MOST_PAIRS],
    ]
    others = [t for t in range(len(terms)) if t not in set(drawn)]
    rest = np.zeros(len(model.bias))
    for _, values in found.chunks():
        added = sum(term_values(model, [terms[t] for t in others], values), start=np.zeros(1))
        rest = rest + np.abs(added - means[others].sum(axis=0)).sum(axis=0) / n
    return Terms(terms, means, importance, model.bias + means.sum(axis=0), drawn, rest)


def columns_section(found: Measured) -> tuple[str, str, str]:
    """The parts of the logit that are drawn, and by name those that are not."""
    split, codes = split_terms(found), _codes(found)
    curves = [t for t in split.drawn if len(split.terms[t].columns) == 1]
    pairs = [t for t in split.drawn if len(split.terms[t].columns) == 2]
    sets = "the logit" if len(split.base) == 1 else "the logits"
    base = ", ".join(
        f"{name} {value:+.3f}" for name, value in list(zip(_sets(found), split.base, strict=True))[:MOST_CLASSES]
    )
    most = _by_importance(split)[:_BARS]
    base += f" and {len(split.base) - MOST_CLASSES} more" if len(split.base) > MOST_CLASSES else ""
    content = [
        said(
            f"Each picture says what is added to {sets}, less its mean over {len(found.sample):,} of the rows: "
            f"logit = base + what is drawn + the rest, exactly. Base: {base}. Rest: {_rest(found, split)}."
        ),
        heading("What matters: mean absolute contribution"),
        figure(_bars([(_term_name(found, split.terms[t]), float(split.importance[t])) for t in most])),
    ]
    if curves:
        drawn = [figure(_curve(found, split, t, codes), _unit(found, split.terms[t].columns)) for t in curves]
        content += [heading("Columns, each by itself"), figures(drawn)]
    if pairs:
        content += [heading("Pairs of columns"), figures(figure(_pair(found, split, t, codes)) for t in pairs)]
    others = _others(found, split)
    if others:
        content += [heading("In the rest, strongest first"), table(("columns", "mean absolute contribution"), others)]
    return section("columns", "What the columns say", *content)


def _codes(found: Measured) -> FloatArray:
    """(n_sample, d) numbers, days, or places of categories."""
    raw = found.raw(found.sample)
    encoder = found.model.encoder
    return encoder.codes(raw, gaps=True) if isinstance(encoder, ColumnsEncoder) else np.asarray(raw, np.float64)


def _sets(found: Measured) -> list[str]:
    """The class that each weight set speaks for."""
    return [found.classes[code] for code in found.model.head.class_codes(len(found.model.bias)).tolist()]


def _rest(found: Measured, split: Terms) -> str:
    drawn, sizes = set(split.drawn), [len(term.columns) for term in split.terms]
    left = [size for t, size in enumerate(sizes) if t not in drawn and size]
    counts = {"column": left.count(1), "pair": left.count(2), "set of three or more columns": sum(n > 2 for n in left)}
    named = [f"{n:,} {name}{'s' * (n > 1 and ' ' not in name)}" for name, n in counts.items() if n]
    told = ", ".join(named).replace("set of", "sets of") or "nothing"
    return f"{told}, in the mean {float(split.rest.mean()):.3f} in magnitude"


def _term_name(found: Measured, term: Term) -> str:
    return " by ".join(found.names[column] for column in term.columns)


def _unit(found: Measured, columns: Sequence[int]) -> str:
    encoder = found.model.encoder
    return f"{encoder.columns[columns[0]].kind}" if isinstance(encoder, ColumnsEncoder) else ""


def _by_importance(split: Terms) -> list[int]:
    """The terms that add something, those first that add most."""
    return [t for t in np.argsort(-split.importance, kind="stable").tolist() if split.importance[t] > 0]


def _bars(lines: Sequence[tuple[str, float]]) -> Drawing:
    told = ", ".join(f"{name} {value:.3f}" for name, value in lines[:5])
    found = Drawing(640, 8 + 20.0 * max(1, len(lines)), f"Mean absolute contributions, the largest: {told or 'none'}")
    most = max((value for _, value in lines), default=1.0)
    for i, (name, value) in enumerate(lines):
        y = 4 + 20.0 * i
        found.add(Text(250, y + 13, fitting(name, 240), "end", title=name))
        found.add(Rect(258, y + 3, max(1.0, 310 * value / most), 12, "c0", title=f"{name}: {value:.4f}"))
        found.add(Text(264 + 310 * value / most, y + 13, f"{value:.3f}", fill="muted"))
    return found


def _others(found: Measured, split: Terms) -> list[tuple[str, float]]:
    drawn = set(split.drawn)
    order = [t for t in _by_importance(split) if t not in drawn]
    return [(_term_name(found, split.terms[t]), float(split.importance[t])) for t in order[:_MOST_LINES]]


def _curve(found: Measured, split: Terms, number: int, codes: FloatArray) -> Plot:
    """A line per weight set over the column, steps where its values have no order; below, how many rows are where."""
    term = split.terms[number]
    column = term.columns[0]
    axis, own = column_axis(found.model, column), codes[:, column]
    values = term_at(found.model, term, axis.codes[:, None]) - split.means[number]
    sets = np.argsort(-np.ptp(values, axis=0), kind="stable")[:_MOST_SETS].tolist()
    names = _sets(found)
    more = "" if len(sets) == len(names) else f" ({len(sets)} of {len(names)} classes)"
    ends = ", ".join(f"{names[k]} from {values[:, k].min():+.3f} to {values[:, k].max():+.3f}" for k in sets)
    label = f"{found.names[column]} adds to the logit of {ends}{more}"
    draw = _category_plot if axis.texts else _number_plot
    plot = draw(label, axis, values[:, sets], own, (found.names[column] + more, "adds"))
    if len(names) > 1:
        plot.key([(names[k], f"c{i}") for i, k in enumerate(sets)])
    return plot


def _category_plot(label: str, axis: Axis, values: FloatArray, own: FloatArray, names: tuple[str, str]) -> Plot:
    n = len(axis.texts)
    counts = np.array([np.isnan(own).sum() if np.isnan(code) else (own == code).sum() for code in axis.codes])
    plot = Plot(label, (-0.5, n - 0.5), padded(values), names, list(enumerate(axis.texts)))
    titles = [f"{text}: {count} rows" for text, count in zip(axis.texts, counts, strict=True)]
    plot.density(np.arange(n + 1) - np.float64(0.5), counts, titles)
    for (i, k), value in np.ndenumerate(values):
        plot.step(i, float(value), 0.36, f"c{k}", f"{axis.texts[i]}: {value:+.3f}")
    return plot


def _number_plot(label: str, axis: Axis, values: FloatArray, own: FloatArray, names: tuple[str, str]) -> Plot:
    known, there = np.isfinite(axis.codes), own[np.isfinite(own)]
    low, high = float(axis.codes[known].min()), float(axis.codes[known].max())
    plot = Plot(label, (low, high), padded(values), names)
    counts, edges = np.histogram(np.clip(there, low, high), _BARS, (low, high) if high > low else None)
    starts = zip(counts.tolist(), edges[:-1], strict=True)
    plot.density(edges, counts, [f"{n} rows from {short_number(edge)}" for n, edge in starts])
    for k in range(values.shape[1]):
        plot.line(axis.codes[known], values[known, k], f"c{k}")
        if not known.all():
            gap = float(values[~known, k][0])
            plot.step(high - 0.02 * (high - low), gap, 0.02 * (high - low), f"c{k}", f"missing: {gap:+.3f}")
    return plot


def _pair(found: Measured, split: Terms, number: int, codes: FloatArray) -> Drawing:
    """What a pair adds at the values of its columns (of many at some, spread as the rows are), where it adds most."""
    term = split.terms[number]
    axes = [_thinned(column_axis(found.model, column), codes[:, column]) for column in term.columns]
    across, up = (axis.codes for axis in axes)
    grid = np.stack([np.tile(across, len(up)), np.repeat(up, len(across))], axis=1)
    values = term_at(found.model, term, grid) - split.means[number]
    k = int(np.ptp(values, axis=0).argmax())
    columns, rows = (_texts(found, c, axis) for c, axis in zip(term.columns, axes, strict=True))
    names = found.names[term.columns[0]], found.names[term.columns[1]]
    label = f"{names[0]} and {names[1]} together add to the logit of {_sets(found)[k]} from {values[:, k].min():+.3f} "
    label += f"to {values[:, k].max():+.3f}"
    return heat_map(label, values[:, k].reshape(len(up), len(across)), rows, columns, names)


def _thinned(axis: Axis, own: FloatArray) -> Axis:
    if len(axis.codes) <= _MOST_CODES:
        return axis
    if axis.texts:
        return Axis(axis.codes[:_MOST_CODES], axis.texts[:_MOST_CODES])
    there = own[np.isfinite(own)]
    wanted = np.quantile(there, np.linspace(0, 1, _MOST_CODES)) if len(there) else axis.codes[np.isfinite(axis.codes)]
    return Axis(np.unique(wanted))


def _texts(found: Measured, column: int, axis: Axis) -> list[str]:
    if axis.texts:
        return list(axis.texts)
    encoder = found.model.encoder
    kind = encoder.columns[column].kind if isinstance(encoder, ColumnsEncoder) else "number"
    return ["missing" if np.isnan(code) else shown(kind, np.array([code]))[0] for code in axis.codes.tolist()]
