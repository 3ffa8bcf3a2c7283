"""Single examples with their explanations: the worst mistakes, the least sure, of images a right one per class."""

from collections.abc import Sequence

import numpy as np

from lcml.errors import ContradictionError
from lcml.explain.contributions import explain
from lcml.explain.pixels import image_shape, pictures
from lcml.explain.report.html import figure, figures, heading, hidden, said, section, table
from lcml.explain.report.measured import MOST_CLASSES, Measured
from lcml.explain.report.why import why
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.table import Table

_MISTAKES, _UNSURE = 8, 6
_SHOWN = 7  # contributions of each
_MOST_VALUES = 60


def examples_section(found: Measured) -> tuple[str, str, str]:
    """What went worst, what was nearest to going another way, and how a right answer comes about."""
    order = np.argsort(found.of_truth, kind="stable")
    worst = [row for row in order.tolist() if found.predicted[row] != found.labels[row]]
    ranked = np.sort(found.probabilities, axis=1)
    unsure = np.argsort(ranked[:, -1] - ranked[:, -2], kind="stable").tolist()
    content = [
        heading("The worst mistakes"),
        said(f"{len(worst):,} of {found.n_examples:,} rows are wrong; first those whose true class is least probable."),
        _drawn(found, worst[:_MISTAKES]),
        heading("The least sure"),
        said("The two most probable classes are nearest to each other."),
        _drawn(found, unsure[:_UNSURE]),
    ]
    if image_shape(found.model) is not None:
        right = [row for row in order[::-1].tolist() if found.predicted[row] == found.labels[row]]
        first = {int(found.labels[row]): row for row in reversed(right[: len(right) // 2 + 1])}
        rows = [first[code] for code in sorted(first)[:MOST_CLASSES]]
        content += [heading("Right ones, an example per class"), _drawn(found, rows)]
    return section("examples", "Example by example", *content)


def _drawn(found: Measured, rows: Sequence[int]) -> str:
    return figures(_example(found, row) for row in rows)


def _example(found: Measured, row: int) -> str:
    model, one = found.model, found.raw(np.array([row]))
    truth, guess = found.classes[found.labels[row]], found.classes[found.predicted[row]]
    told = f"row {row}: {guess} ({found.probabilities[row].max():.1%}), it is {truth} ({found.of_truth[row]:.1%})"
    try:
        explained = explain(
            model,
            one if isinstance(one, Table) else one[0],
            found.names,
            _SHOWN,
            found.average,
            groups=found.groups,
            backend=found.backend,
        )
    except ContradictionError as error:
        return said(f"{told}: {error}")
    image = pictures(model, one)[0] if image_shape(model) is not None else None
    drawn = figure(why(explained, told, image))
    if image is not None:
        return drawn
    return f"<div>{drawn}{hidden('all values of this row', table(('column', 'value'), _values(found, one)))}</div>"


def _values(found: Measured, one: Table | np.ndarray) -> list[tuple[str, str]]:
    encoder = found.model.encoder
    if isinstance(encoder, ColumnsEncoder):
        blank = [""] * len(found.names)
        told = [text.strip().removeprefix("is ") for text in encoder.in_words(one, blank)]
    else:
        told = [f"{value:.6g}" for value in np.asarray(one)[0].tolist()]
    lines = list(zip(found.names, told, strict=True))
    more = len(lines) - _MOST_VALUES
    return [*lines[:_MOST_VALUES], *([("…", f"{more:,} more columns")] if more > 0 else [])]
