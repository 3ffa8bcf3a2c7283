"""The tables of the paper with what was measured here beside its claims: Markdown, JSON, and a plot."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcml.files import write_atomically
from lcml.runs import plots
from lcml.runs.reproduce import claims
from lcml.runs.reproduce.experiments import DATA, MODELS, TABLES, Row
from lcml.runs.reproduce.results import RowResult

Results = Mapping[Row, RowResult]

_TITLES = {
    1: "Test accuracy in percent",
    2: "Number of parameters",
    3: "Test accuracy in percent, with fewer training images",
}
_READING = (
    "Each cell: measured here (the paper's claim); - is what was not measured or is not defined. Test images were read "
    "once per row, for its final accuracy. Of the training images used, 10% are validation images; all settings were "
    "chosen on these or beforehand."
)
_STORED = "What has no parameters keeps support vectors (numbers) or nodes of trees"
_QUICK = (
    "**Made with --quick: a small part of the training images and few iterations. Not to be compared with the paper.**"
)


@dataclass(frozen=True)
class Cell:
    """One model in one column; measured and claim are None where there is none."""

    model: str
    data: str
    fraction: float
    measured: float | None
    claim: float | str | None
    result: RowResult | None

    def __str__(self) -> str:
        number = "," if isinstance(self.measured, int) else ".2f"
        measured = "-" if self.measured is None else format(self.measured, number)
        return measured if self.claim is None else f"{measured} ({self._claim()})"

    def _claim(self) -> str:
        if isinstance(self.claim, int):
            return f"{self.claim // 1000:,}K"
        return f"{self.claim:.1f}" if isinstance(self.claim, float) else str(self.claim)


def write_tables(directory: Path, tables: Sequence[int], results: Results) -> list[Path]:
    """Write table-N.md and table-N.json for each of `tables`; the paths. Raises OutputError."""
    paths = []
    for table in tables:
        lines = table_cells(table, results)
        for suffix, content in ((".md", markdown(table, lines)), (".json", _as_json(table, lines))):
            paths.append(directory / f"table-{table}{suffix}")
            write_atomically(paths[-1], content)
    return paths


def write_picture(directory: Path, results: Results) -> Path:
    """Write accuracy.png, accuracy against parameters with all training images; its path. Raises OutputError."""
    path = directory / "accuracy.png"
    write_atomically(path, plots.accuracy_by_size(_points(results)))
    return path


def table_cells(table: int, results: Results) -> list[list[Cell]]:
    """The cells of a table, a list per model.

    A model that was not measured is there where the paper claims something of it in the table's last column, and no
    other line shows that claim.
    """
    last = TABLES[table][-1]
    found = {(row.model, row.data, row.fraction): result for row, result in results.items()}
    lines: list[list[Cell]] = []
    shown: set[str] = set()
    for model in MODELS:
        cells = [_cell(table, model, data, fraction, found) for data in DATA for fraction in TABLES[table]]
        claimed = any(cell.claim is not None and cell.fraction == last for cell in cells)
        if any(cell.measured is not None for cell in cells) or (claimed and MODELS[model].claim not in shown):
            lines.append(cells)
            shown.add(MODELS[model].claim)
    return lines


def markdown(table: int, lines: Sequence[Sequence[Cell]]) -> str:
    """A table as Markdown, with how to read it."""
    shares = [f", {fraction:.0%}" for fraction in TABLES[table]] if len(TABLES[table]) > 1 else [""]
    columns = [name + share for name in DATA.values() for share in shares]
    rows = [
        "| model | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 1) + "|",
        *(f"| {MODELS[cells[0].model].label} | {' | '.join(map(str, cells))} |" for cells in lines),
    ]
    results = [cell.result for cells in lines for cell in cells if cell.result is not None]
    paragraphs = [f"# Table {table}. {_TITLES[table]}", "\n".join(rows), _READING]
    if any(result.quick for result in results):
        paragraphs.insert(1, _QUICK)
    if keeps := ", ".join(f"{result.name} {result.n_stored:,}" for result in results if result.n_stored is not None):
        paragraphs.append(f"{_STORED}: {keeps}.")
    return "\n\n".join(paragraphs) + "\n"


def _cell(
    table: int, model: str, data: str, fraction: float, found: Mapping[tuple[str, str, float], RowResult]
) -> Cell:
    result = found.get((model, data, fraction))
    of_table: Mapping[str, Mapping[claims.Setting, float | str]] = claims.PARAMETERS if table == 2 else claims.ACCURACY
    claimed = of_table.get(MODELS[model].claim, {})
    measured = None if result is None else result.n_parameters if table == 2 else 100 * result.test_accuracy
    return Cell(model, data, fraction, measured, claimed.get((data, fraction)), result)


def _as_json(table: int, lines: Sequence[Sequence[Cell]]) -> str:
    cells: list[dict[str, Any]] = [
        {
            "model": cell.model,
            "label": MODELS[cell.model].label,
            "beside": MODELS[cell.model].claim,
            "data": cell.data,
            "training_share": cell.fraction,
            "measured": cell.measured,
            "claim": cell.claim,
            "row": None if cell.result is None else cell.result.name,
            "quick": cell.result is not None and cell.result.quick,
        }
        for line in lines
        for cell in line
    ]
    content = {"table": table, "title": _TITLES[table], "cells": cells}
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _points(results: Results) -> dict[str, list[plots.Point]]:
    """Accuracy against parameters with all training images: what was measured, and what the paper claims."""
    points: dict[str, list[plots.Point]] = {name: [] for name in DATA.values()}
    for row, result in results.items():
        if row.fraction == 1 and result.n_parameters is not None:
            label = MODELS[row.model].label
            points[DATA[row.data]].append(plots.Point(label, result.n_parameters, result.test_accuracy, True))
    for claim, sizes in claims.PARAMETERS.items():
        for (data, fraction), size in sizes.items():
            if isinstance(size, int):
                accuracy = claims.ACCURACY[claim][data, fraction] / 100
                points[DATA[data]].append(plots.Point(claim, size, accuracy, False))
    return points
