"""`lcml compact`."""

from typing import Annotated

import typer

from lcml.cli.common import JsonOption, ModelArgument, option, print_json


def compact(
    model: ModelArgument,
    output: Annotated[str, option("The model file to write.", "--output", "-o", metavar="FILE")],
    json: JsonOption = False,
) -> None:
    """Write the same function with weights for independent features alone: one less per or gate, none for literals.

    Weights are moved, none is approximated: predictions stay equal up to rounding.
    """
    from lcml.formats import load_model, save_model
    from lcml.model.compact import compact as compacted

    before = load_model(model)
    after = compacted(before)
    save_model(after, output)
    counts = {
        "n_elements": before.n_elements,
        "n_or_gates": before.n_or_gates,
        "n_parameters_before": before.n_parameters,
        "n_parameters_after": after.n_parameters,
    }
    if json:
        return print_json({"model_path": model, "output": output, **counts})
    typer.echo(
        f"{output}: {counts['n_parameters_after']:,} parameters instead of {counts['n_parameters_before']:,}, "
        f"{counts['n_elements']:,} elements, {counts['n_or_gates']:,} or gates"
    )
    return None
