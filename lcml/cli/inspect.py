"""`lcml inspect`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcml.cli.common import JsonOption, ModelArgument, option, print_json, print_table

if TYPE_CHECKING:
    from lcml.circuits.parts import Part
    from lcml.inputs.column import Column

_TOP = 3
_MOST_VALUES = 8
_MOST_LEVELS = 12
_MOST_COLUMNS, _MOST_CHARS = 50, 80


def inspect(
    model: ModelArgument,
    json: JsonOption = False,
    top: Annotated[int, option("How many conditions of largest weight to show per class.", metavar="N", min=0)] = _TOP,
) -> None:
    """Show what is in a model: sizes, encoder, classes, where it comes from, and what weighs most in it."""
    import numpy as np

    from lcml.explain.conditions import feature_cases
    from lcml.explain.contributions import top_conditions
    from lcml.explain.report.structure import circuit_levels
    from lcml.formats import load_model

    loaded = load_model(model)
    n_sets, circuits = len(loaded.bias), [part.circuit for part in loaded.parts]
    cases = map(feature_cases, circuits)
    of_literals = [np.tile(part.flows < part.circuit.n_literals, part.view.n_cells) for part in loaded.parts]
    n_literal_features = int(np.count_nonzero(np.concatenate(of_literals) & loaded.carried))
    facts: dict[str, Any] = {
        "model_path": model,
        "classes": list(loaded.classes),
        "n_classes": len(loaded.classes),
        "link": loaded.link,
        **({"missing": loaded.missing.policy} if loaded.missing else {}),
        **({"threshold": loaded.threshold} if len(loaded.classes) == 2 else {}),
        "encoder": loaded.encoder.kind,
        "channels": list(loaded.encoder.channels),
        **({"pool": pool} if (pool := getattr(loaded.encoder, "pool", 1)) > 1 else {}),
        "n_variables": loaded.encoder.n_outputs,
        "n_parts": len(loaded.parts),
        "n_elements": loaded.n_elements,
        "n_or_gates": loaded.n_or_gates,
        "n_parameters": loaded.n_parameters,
        "n_element_weights": n_sets * (sum(loaded.n_carried) - n_literal_features),
        "n_literal_weights": n_sets * n_literal_features,
        "n_biases": loaded.bias.size,
        "is_tautology": all(circuit.is_tautology for circuit in circuits),
        "is_product": all(circuit.is_product for circuit in circuits),
        "longest_conjunction": max(found.measures(one).longest for found in cases for one in found.of_feature),
    }
    levels = [{"part": part} | level for part, circuit in enumerate(circuits) for level in circuit_levels(circuit)]
    parts = [
        _part(number, part, n) for number, (part, n) in enumerate(zip(loaded.parts, loaded.n_carried, strict=True))
    ]
    conditions = top_conditions(loaded, top=top)
    columns = [_column(column) for column in getattr(loaded.encoder, "columns", ())]
    if json:
        tops = {
            str(name): [{"condition": text, "weight": weight} for text, weight in found]
            for name, found in conditions.items()
        }
        views = [part.view.as_dict() for part in loaded.parts]
        parts = [{**part, "view": view} for part, view in zip(parts, views, strict=True)]
        others = {
            "columns": columns,
            "parts": parts,
            "levels": levels,
            "top": tops,
            "provenance": dict(loaded.provenance),
        }
        return print_json({**facts, **others})
    for name, value in facts.items():
        typer.echo(f"{name:20} {', '.join(map(str, value)) if isinstance(value, list) else value}")
    shown = [line | {"values": _few(line["values"])} for line in columns[:_MOST_COLUMNS]]
    if len(columns) > len(shown):
        typer.echo(f"{'columns':20} {len(columns):,}, of which the first {len(shown)} follow (--json: all)")
    for table in (shown, parts, levels if len(levels) <= _MOST_LEVELS else []):
        if table:
            print_table(list(table[0]), [list(line.values()) for line in table])
    for label, found in conditions.items() if top else ():
        typer.echo(f"What weighs most for {label}:")
        for text, weight in found:
            typer.echo(f"  {weight:+9.4f}  {text}")
    for name, value in ((name, value) for name, value in loaded.provenance.items() if name != "reference"):
        entries = value.items() if isinstance(value, dict) else [("", value)]
        typer.echo(f"{name:20} " + ", ".join(f"{part} {_short(found)}".strip() for part, found in entries))
    return None


def _short(value: object) -> str:
    """A value of the provenance in a line: of a long list only how many, of a number what can be read."""
    if isinstance(value, list) and len(value) > _MOST_VALUES:
        return f"({len(value)} values)"
    if isinstance(value, list) and any(isinstance(part, float) for part in value):
        return f"[{', '.join(map(_short, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _column(column: "Column") -> dict[str, Any]:
    """A column of a table: its knots or categories as they are written, and the steps that trees ask for."""
    from lcml.inputs.phrases import OTHERS

    return {
        "column": column.name,
        "kind": column.kind,
        "gaps": column.gaps,
        "values": [*column.shown_values, *([OTHERS] if column.shared else [])],
        "steps": len(column.steps),
    }


def _few(texts: Sequence[str]) -> str:
    """Texts in a line, of many the first and the last."""
    shown = [*texts[: _MOST_VALUES - 1], "...", texts[-1]] if len(texts) > _MOST_VALUES + 1 else texts
    line = ", ".join(shown)
    return line if len(line) <= _MOST_CHARS else line[: _MOST_CHARS - 3] + "..."


def _part(number: int, part: "Part", n_features: int) -> dict[str, Any]:
    view, circuit = part.view, part.circuit
    return {
        "part": number,
        "view": view.in_words(),
        "variables": view.n_variables,
        "positions": view.n_positions,
        "cells": view.n_cells,
        "elements": circuit.n_elements,
        "or_gates": circuit.n_or_gates,
        "levels": int(circuit.vtree.height.max()),
        "features": n_features,
    }
