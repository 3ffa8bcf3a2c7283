"""`lcml explain`."""

from typing import Annotated

import typer

from lcml.cli.common import DataArgument, DataDirOption, JsonOption, ModelArgument, TargetOption, option, print_json

_TOP = 10


def explain(
    model: ModelArgument,
    data: DataArgument,
    row: Annotated[int, option("Which example of the data (the test part of a set), from 0.", metavar="I", min=0)] = 0,
    top: Annotated[int, option("How many contributions to show.", metavar="N", min=1)] = _TOP,
    target: TargetOption = None,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Say why an example gets its label: the conditions that add most to the logit of that class, in words."""
    from dataclasses import asdict

    from lcml.cli.inputs import read_examples
    from lcml.errors import DataError
    from lcml.explain.contributions import explain as explain_example
    from lcml.formats import load_model

    loaded = load_model(model)
    try:
        examples = read_examples(loaded, data, target=target, data_dir=data_dir)
        labels = [loaded.classes[code] for code in examples.labels.tolist()]
    except DataError:  # an example without a label, or one of an unknown class, can be explained too
        examples = read_examples(loaded, data, target=target, data_dir=data_dir, require_labels=False)
        labels = []
    if row >= len(examples):
        raise DataError(f"{data} has {len(examples)} examples here, so there is no row {row} (rows count from 0)")
    found = explain_example(loaded, examples.features[row : row + 1][0], top=top)
    truth = labels[row] if labels else None
    chances = {str(name): p for name, p in zip(loaded.classes, found.probabilities, strict=True)}
    if json:
        values = {"model_path": model, "data": data, "row": row, "true_label": truth, **asdict(found)}
        return print_json(values | {"probabilities": chances})
    known = "" if truth is None else f" (it is {truth})"
    typer.echo(f"Row {row} of {data}: {found.label}{known}, with probability {chances[str(found.label)]:.4f}")
    typer.echo(f"logit {found.logit:+.4f} = bias {found.bias:+.4f}, and")
    for part in found.contributions:
        typer.echo(f"  {part.contribution:+9.4f}  = {part.flow:.3f} x {part.weight:+.4f}  {part.condition}")
    typer.echo(f"  {found.rest:+9.4f}  all else")
    return None
