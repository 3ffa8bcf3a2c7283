"""`lcml compact`."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcml.cli.common import (
    BackendOption,
    DataDirOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    open_backend,
    option,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from lcml.runs.pruning import Pruned


def compact(
    model: ModelArgument,
    output: Annotated[str, option("The model file to write.", "--output", "-o", metavar="FILE")],
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="The data trained on, to drop conditions and fit the others.")
    ] = None,
    max_conditions: Annotated[
        int | None, option("Drop what matters least, down to so many conditions.", metavar="N", min=1)
    ] = None,
    max_parameters: Annotated[
        int | None, option("The same, cell by cell of windows, down to so many parameters.", metavar="N", min=1)
    ] = None,
    tolerance: Annotated[
        float | None,
        option("The same, as long as the log-loss of the validation rows grows by no more.", metavar="LOSS", min=0),
    ] = None,
    drop: Annotated[
        list[str] | None, option("Drop this condition, as it is told by inspect or explain.", metavar="CONDITION")
    ] = None,
    edit: Annotated[
        list[str] | None,
        option("Give a condition this weight; of more than two classes CLASS: CONDITION=WEIGHT.", metavar="EDIT"),
    ] = None,
    target: TargetOption = None,
    data_dir: DataDirOption = None,
    backend: BackendOption = "auto",
    json: JsonOption = False,
) -> None:
    """Write the same function with fewer parameters, or a model with fewer conditions.

    Without a limit weights are moved to independent features alone (one less per or gate, none for literals), none is
    approximated: predictions stay equal up to rounding. With --max-conditions, --max-parameters or --tolerance, and
    DATA, the conditions that matter least go, the others are fitted again on the training rows and the validation rows
    choose; the test rows are not looked at.
    """
    from lcml.cli.inputs import trained_splits
    from lcml.errors import DataError, SettingsError
    from lcml.explain.edits import edited
    from lcml.formats import load_model, save_model
    from lcml.model.compact import compact as compacted
    from lcml.model.compact import without_zeros

    limits = {"max-conditions": max_conditions, "max-parameters": max_parameters, "tolerance": tolerance}
    given = [name for name, value in limits.items() if value is not None]
    if len(given) > 1:
        raise SettingsError(f"--{given[0]} and --{given[1]} contradict each other; give one")
    if bool(given) != (data is not None):
        what = f"--{given[0]} needs DATA, the data trained on" if given else "DATA is for --max-conditions and the like"
        raise SettingsError(f"{what}; lcml compact MODEL DATA --max-conditions N -o FILE")
    if given and edit:
        raise SettingsError(f"--{given[0]} fits weights again, --edit sets them; run lcml compact twice")
    before = load_model(model)
    if given and max_parameters is not None and max_parameters < 2 * len(before.bias):
        raise SettingsError(f"--max-parameters: expected {2 * len(before.bias)} or more, a bias and a weight per class")
    after, curve = before, None
    if drop or edit:
        after = without_zeros(edited(before, drop or (), edit or ()))
    if data is not None:
        from lcml.runs.preparation import as_trained
        from lcml.runs.pruning import Limits, prune_on

        device, splits = open_backend(backend), trained_splits(before, data, target, data_dir)
        if not len(splits.valid):
            raise DataError(f"{data} was trained on without validation examples, which choose; train with some")
        to_fit, valid = as_trained(after, splits, device)
        everything = partial(to_fit, splits.train.joined(splits.valid))
        within = Limits(max_conditions, max_parameters, tolerance)
        pruned = prune_on(after, to_fit(splits.train), valid, everything, device, within)
        after, curve = pruned.model, _curve(pruned)
    elif not (drop or edit):
        after = compacted(before)
    save_model(after, output)
    counts = {
        "n_elements": after.n_elements,
        "n_or_gates": after.n_or_gates,
        "n_parameters_before": before.n_parameters,
        "n_parameters_after": after.n_parameters,
    }
    if json:
        return print_json({"model_path": model, "output": output, **counts} | ({"curve": curve} if curve else {}))
    if curve:
        print_table(list(curve[0]), [list(step.values()) for step in curve])
    typer.echo(
        f"{output}: {counts['n_parameters_after']:,} parameters instead of {counts['n_parameters_before']:,}, "
        f"{counts['n_elements']:,} elements, {counts['n_or_gates']:,} or gates"
    )
    return None


def _curve(pruned: "Pruned") -> list[dict[str, Any]]:
    """The steps as a table."""
    return [
        {
            "conditions": step.n_conditions,
            "parameters": step.model.n_parameters,
            "train log-loss": step.train.log_loss,
            "valid log-loss": step.valid.log_loss,
            "valid accuracy": step.valid.accuracy,
            "kept": "kept" if step is pruned.chosen else "",
        }
        for step in pruned.steps
    ]
