"""`lcml compact`."""

from typing import Annotated

import typer

from lcml.cli.common import JsonOption, ModelArgument, print_json


def compact(
    model: ModelArgument,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.", show_default=False)
    ],
    json: JsonOption = False,
) -> None:
    """Write the same function with fewer parameters: no literal weights, and one less per or gate and class.

    Weights are moved, none is approximated: predictions stay equal up to rounding.
    """
    from lcml.compact import compact as compacted
    from lcml.compact import count_parameters
    from lcml.formats import load_model, save_model

    before = load_model(model)
    after = compacted(before)
    save_model(after, output)
    counts = {
        "n_elements": before.circuit.n_elements,
        "n_or_gates": before.circuit.n_or_gates,
        "n_parameters_before": count_parameters(before),
        "n_parameters_after": count_parameters(after),
    }
    if json:
        return print_json({"model_path": model, "output": output, **counts})
    typer.echo(
        f"{output}: {counts['n_parameters_after']:,} parameters instead of {counts['n_parameters_before']:,}, "
        f"{counts['n_elements']:,} elements, {counts['n_or_gates']:,} or gates"
    )
    return None
