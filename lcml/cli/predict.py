"""`lcml predict`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lcml.cli.common import (
    BackendOption,
    DataArgument,
    DataDirOption,
    ModelArgument,
    TargetOption,
    open_backend,
    option,
)

if TYPE_CHECKING:
    from lcml.arrays import FloatArray
    from lcml.model.model import LogisticCircuit


def predict(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[
        str | None, option("Where to write; by default stdout.", "--output", "-o", metavar="FILE.csv")
    ] = None,
    proba: Annotated[bool, option("Whether to add a column of probabilities per class.", "--proba/--no-proba")] = True,
    target: TargetOption = None,
    data_dir: DataDirOption = None,
    backend: BackendOption = "auto",
) -> None:
    """Predict: a CSV line per example, in the order of the data, with the label and the probability of every class.

    The data need no labels. Of a named set, or one with test examples of its own, the test examples are predicted.
    """
    from lcml.cli.inputs import read_examples
    from lcml.files import atomic_writer
    from lcml.formats import load_model

    device = open_backend(backend)
    loaded = load_model(model)
    examples = read_examples(loaded, data, target=target, data_dir=data_dir, require_labels=False)
    lines = _lines(loaded, loaded.logits(examples.features, device), proba)
    if output in (None, "-"):
        for line in lines:
            typer.echo(line, nl=False)
    else:
        with atomic_writer(output) as file:
            file.writelines(line.encode() for line in lines)


def _lines(model: "LogisticCircuit", logits: "FloatArray", proba: bool) -> Iterator[str]:
    """CSV: a header, then a line per example; probabilities in the shortest form that reads back exactly."""
    import csv
    import io

    from lcml.model.head import predicted_codes

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")

    def line(values: list[object]) -> str:
        writer.writerow(values)
        text = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return text

    yield line(["label", *(f"probability_{name}" for name in model.classes if proba)])
    rows = model.head.probabilities(logits).tolist()
    for code, row in zip(predicted_codes(logits).tolist(), rows, strict=True):
        yield line([model.classes[code], *(row if proba else ())])
