"""`lcml card`."""

from typing import Annotated

import typer

from lcml.cli.common import DataDirOption, ModelArgument, TargetOption, open_backend, option


def card(
    model: ModelArgument,
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="Data to measure it on: its test rows, as for evaluate.")
    ] = None,
    output: Annotated[
        str | None, option("The file to write, README.md; else stdout.", "--output", "-o", metavar="FILE")
    ] = None,
    name: Annotated[str | None, option("What the model is called; else the file's name.", metavar="NAME")] = None,
    target: TargetOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Write a model card as the Hugging Face Hub has them: data, quality, what weighs most, limits, reproduction."""
    from pathlib import Path

    from lcml.cli.inputs import rows_to_measure
    from lcml.explain.report.measured import Measured
    from lcml.files import check_place, write_atomically
    from lcml.formats import load_model
    from lcml.runs.card import model_card

    place = None if output is None else check_place(output)
    loaded = load_model(model)
    measured = None
    if data is not None:
        found = rows_to_measure(loaded, data, None, target=target, data_dir=data_dir)
        source = Path(data).stem if found.new else str(loaded.facts("data").get("name", Path(data).stem))
        examples, device = found.examples, open_backend("auto")
        measured = Measured(loaded, examples.features, examples.labels, found.which, source, device, found.warning)
    text = model_card(loaded, Path(model).stem if name is None else name, measured)
    if place is None:
        typer.echo(text, nl=False)
        return
    write_atomically(place, text)
    typer.echo(f"{output}: the card of {model}")
