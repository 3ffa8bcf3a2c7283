"""`lcml inspect`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcml.cli.common import JsonOption, ModelArgument, print_json, print_table

if TYPE_CHECKING:
    from lcml.circuit import Circuit

_TOP = 3
_MOST_VALUES = 8


def inspect(
    model: ModelArgument,
    json: JsonOption = False,
    top: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many conditions of largest weight to show per class.")
    ] = _TOP,
) -> None:
    """Show what is in a model: sizes, encoder, classes, where it comes from, and what weighs most in it."""
    from lcml.cli.inputs import shown_names
    from lcml.explain import feature_cases, top_conditions
    from lcml.formats import load_model

    loaded = load_model(model)
    circuit = loaded.circuit
    literals = loaded.literal_weights
    features = feature_cases(circuit)
    facts: dict[str, Any] = {
        "model_path": model,
        "classes": list(loaded.classes),
        "n_classes": len(loaded.classes),
        "link": loaded.link,
        "encoder": loaded.encoder.kind,
        "n_variables": circuit.n_variables,
        "n_elements": circuit.n_elements,
        "n_or_gates": circuit.n_or_gates,
        "n_parameters": loaded.n_parameters,
        "n_element_weights": loaded.element_weights.size,
        "n_literal_weights": 0 if literals is None else literals.size,
        "n_biases": loaded.bias.size,
        "is_tautology": circuit.is_tautology,
        "is_product": circuit.is_product,
        "longest_conjunction": max(len(case) for cases in features for case in cases or [()]),
    }
    levels = _levels(circuit)
    conditions = top_conditions(loaded, shown_names(loaded), top)
    if json:
        tops = {
            str(name): [{"condition": text, "weight": weight} for text, weight in found]
            for name, found in conditions.items()
        }
        return print_json({**facts, "levels": levels, "top": tops, "provenance": dict(loaded.provenance)})
    for name, value in facts.items():
        typer.echo(f"{name:20} {', '.join(map(str, value)) if isinstance(value, list) else value}")
    print_table(list(levels[0]) if levels else ("level",), [list(level.values()) for level in levels])
    for label, found in conditions.items() if top else ():
        typer.echo(f"What weighs most for {label}:")
        for text, weight in found:
            typer.echo(f"  {weight:+9.4f}  {text}")
    for name, value in loaded.provenance.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        typer.echo(f"{name:20} " + ", ".join(f"{part} {_short(found)}".strip() for part, found in parts))
    return None


def _short(value: object) -> str:
    """A value of the provenance in a line: of a long list only how many."""
    return f"({len(value)} values)" if isinstance(value, list) and len(value) > _MOST_VALUES else str(value)


def _levels(circuit: "Circuit") -> list[dict[str, int]]:
    """The levels from the root down: all vtree nodes of one height, and what of the circuit stands at them."""
    import numpy as np

    vtree = circuit.vtree
    scope_size = np.diff(vtree.scope_range, axis=1)[:, 0]
    element_height = circuit.or_height[circuit.elem_or]
    return [
        {
            "height": height,
            "vtree_nodes": int((vtree.height == height).sum()),
            "most_variables": int(scope_size[vtree.height == height].max()),
            "or_gates": int((circuit.or_height == height).sum()),
            "elements": int((element_height == height).sum()),
        }
        for height in range(int(vtree.height.max()), 0, -1)
    ]
