"""`lcml explain`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcml.cli.common import (
    DataArgument,
    DataDirOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    open_backend,
    option,
    print_json,
)

if TYPE_CHECKING:
    from lcml.explain.records import Explanation
    from lcml.model.model import LogisticCircuit

_TOP = 10

_MOST_AVERAGED = 256
"""Examples whose average is the baseline: more change little, and the features of all are held at once."""


def explain(
    model: ModelArgument,
    data: DataArgument,
    row: Annotated[int, option("Which example of the data (the test part of a set), from 0.", metavar="I", min=0)] = 0,
    top: Annotated[int, option("How many contributions to show.", metavar="N", min=1)] = _TOP,
    against: Annotated[
        str | None, option("Why the label and not this class: the difference of the two logits.", metavar="CLASS")
    ] = None,
    output: Annotated[
        Path | None, option("Draw it too, as FILE.png, FILE.svg or FILE.html.", "--output", "-o", metavar="FILE")
    ] = None,
    sufficient: Annotated[
        bool, option("Instead: the inputs that alone keep the label, whatever the others are.", "--sufficient")
    ] = False,
    probability: Annotated[
        float | None, option("With --sufficient: for so many of the data's other rows.", metavar="P", min=0, max=1)
    ] = None,
    counterfactual: Annotated[
        bool, option("Instead: the fewest changes that give another label.", "--counterfactual")
    ] = False,
    fixed: Annotated[str | None, option("With --counterfactual: what may not change.", metavar="NAME,NAME,...")] = None,
    target: TargetOption = None,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Say why an example gets its label: the conditions that add most to the logit of that class, in words.

    Beside the average of (at most 256) examples of the data, spread evenly: its logit is the baseline.
    """
    import numpy as np

    from lcml.cli.inputs import read_examples
    from lcml.cli.reasons import check_reasons, tell_counterfactual, tell_reason
    from lcml.errors import ContradictionError, DataError
    from lcml.explain.contributions import average_features
    from lcml.explain.contributions import explain as explain_example
    from lcml.formats import load_model
    from lcml.inputs.table import Table

    check_reasons(sufficient, counterfactual, probability, fixed, output is not None or against is not None)
    if output is not None:
        _check_output(output)
    loaded = load_model(model)
    try:
        examples = read_examples(loaded, data, target=target, data_dir=data_dir)
        labels = [loaded.classes[code] for code in examples.labels.tolist()]
    except DataError:  # an example without a label, or one of an unknown class, can be explained too
        examples = read_examples(loaded, data, target=target, data_dir=data_dir, require_labels=False)
        labels = []
    if row >= len(examples):
        raise DataError(f"{data} has {len(examples)} examples here, so there is no row {row} (rows count from 0)")
    one = examples.features[row : row + 1]
    if sufficient or counterfactual:
        about = {"model_path": model, "data": data, "row": row, "true_label": labels[row] if labels else None}
        rest = examples.select(np.delete(np.arange(len(examples)), row)).features
        if sufficient:
            return tell_reason(loaded, one, rest, probability, about, json)
        return tell_counterfactual(loaded, one, rest, fixed, about, json)
    others = np.linspace(0, len(examples) - 1, min(len(examples), _MOST_AVERAGED)).astype(int)
    n_averaged, average = len(others) if len(others) > 1 else 0, None
    try:
        if n_averaged:
            average = average_features(loaded, examples.features[others], open_backend("auto"))
    except ContradictionError:  # of another example, which has no features
        n_averaged = 0
    other = next((name for name in loaded.classes if str(name) == against), against)
    found = explain_example(loaded, one if isinstance(one, Table) else one[0], None, top, average, other)
    truth = labels[row] if labels else None
    chances = {str(name): p for name, p in zip(loaded.classes, found.probabilities, strict=True)}
    known = "" if truth is None else f" (it is {truth})"
    title = f"Row {row} of {data}: {found.label}{known}, with probability {chances[str(found.label)]:.4f}"
    if output is not None:
        _draw(loaded, found, one, title.replace(data, Path(data).name), output)
    if json:
        values = {"model_path": model, "data": data, "row": row, "true_label": truth, "n_averaged": n_averaged}
        return print_json(values | found.as_dict() | {"probabilities": chances})
    typer.echo(title)
    averaged = f"the average of {n_averaged} examples" if n_averaged else "the bias: nothing to average"
    less = "" if against is None else f" less that of {against}"
    typer.echo(f"logit{less} {found.logit:+.4f} = baseline {found.baseline:+.4f} ({averaged}), and")
    for part in found.contributions:
        differs = f"({part.flow:.3f} - {part.average:.3f})" if n_averaged else f"{part.flow:.3f}"
        typer.echo(f"  {part.contribution:+9.4f}  = {differs} x {part.weight:+.4f}  {part.condition}")
    typer.echo(f"  {found.rest:+9.4f}  all else")
    if output is not None:
        typer.echo(f"Drawn in {output}")
    return None


_KINDS = (".png", ".svg", ".html")


def _check_output(output: Path) -> None:
    from lcml.errors import OutputError
    from lcml.files import check_place

    check_place(output)
    if output.suffix.lower() not in _KINDS:
        raise OutputError(f"cannot draw {output}: expected a name that ends in {', '.join(_KINDS)}; give one of these")


def _draw(model: "LogisticCircuit", found: "Explanation", one: Any, title: str, output: Path) -> None:
    from lcml.explain.pixels import image_shape, pictures
    from lcml.explain.report.drawing import COLOURS, png, svg
    from lcml.explain.report.html import figure, page, section, table
    from lcml.explain.report.why import why
    from lcml.files import write_atomically

    drawing = why(found, title, None if image_shape(model) is None else pictures(model, one)[0])
    kind = output.suffix.lower()
    if kind == ".html":
        rows = [(part.contribution, part.flow, part.average, part.condition) for part in found.contributions]
        lines = table(("adds", "flow", "average", "condition"), [*rows, (found.rest, None, None, "all else")])
        whole = section("why", "Why", figure(drawing), lines)
        content = page(title, f"logit {found.logit:+.4f}, baseline {found.baseline:+.4f}", [whole]).encode()
    else:
        content = png(drawing) if kind == ".png" else svg(drawing, COLOURS).encode()
    write_atomically(output, content)
