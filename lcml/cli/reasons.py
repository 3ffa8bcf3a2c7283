"""What `lcml explain --sufficient` and `--counterfactual` say."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import typer

from lcml.cli.common import print_json
from lcml.errors import SettingsError
from lcml.explain.counterfactuals import NoCounterfactual, counterfactual
from lcml.explain.reasons import sufficient_reason
from lcml.inputs.table import Table
from lcml.model.model import LogisticCircuit

_SHOWN = 30


def check_reasons(
    sufficient: bool, wants_other: bool, probability: float | None, fixed: str | None, wants_more: bool
) -> None:
    """Raises SettingsError for options that contradict each other or lack theirs."""
    if sufficient and wants_other:
        raise SettingsError("--sufficient and --counterfactual are two questions; ask one")
    if wants_more and (sufficient or wants_other):
        raise SettingsError(
            "-o and --against are for contributions; leave them out, or --sufficient and --counterfactual"
        )
    if probability is not None and not sufficient:
        raise SettingsError("--probability is for --sufficient; add it, or leave --probability out")
    if fixed is not None and not wants_other:
        raise SettingsError("--fixed is for --counterfactual; add it, or leave --fixed out")


def tell_reason(
    model: LogisticCircuit, one: Any, others: Any, probability: float | None, about: Mapping[str, Any], json: bool
) -> None:
    """The inputs that keep the label of the one row; others: rows that a probability is measured on."""
    example = one if isinstance(one, Table) else one[0]
    share = 1.0 if probability is None else probability
    found = sufficient_reason(model, example, probability=share, background=others)
    if json:
        return print_json({**about, **asdict(found), "share": found.share and found.share._asdict()})
    typer.echo(f"{_row(about)}: {found.label}, for which {len(found.inputs)} of {found.n_inputs} inputs are enough:")
    _list(found.words)
    if found.share is not None:
        value, low, high = found.share
        typer.echo(
            f"With these, {value:.1%} (95% interval {low:.1%} to {high:.1%}) of {found.n_rows} other rows are "
            f"{found.label} too; as many others chose them."
        )
    else:
        typer.echo(f"Whatever values the others have, it stays {found.label}.")
        if not found.minimal:
            typer.echo("Perhaps fewer are enough: of some it could not be proved either way.")
    return None


def tell_counterfactual(
    model: LogisticCircuit, one: Any, others: Any, fixed: str | None, about: Mapping[str, Any], json: bool
) -> None:
    """The fewest changes that give the one row another label; others: rows whose values are tried too."""
    example = one if isinstance(one, Table) else one[0]
    names = [] if fixed is None else [name.strip() for name in fixed.split(",")]
    found = counterfactual(model, example, fixed=names, background=others)
    if json:
        return print_json({**about, **asdict(found)} | {"found": not isinstance(found, NoCounterfactual)})
    if isinstance(found, NoCounterfactual):
        proof = "whatever values they take" if found.proved else "as far as was searched"
        typer.echo(f"{_row(about)}: {found.label}, and no change of what may change gives another label, {proof}")
        return None
    n = len(found.inputs)
    typer.echo(
        f"{_row(about)}: {found.label}. With {n} change{'s' * (n > 1)} it is {found.other}, with probability "
        f"{found.probability:.4f}:"
    )
    _list(
        [
            f"{after}, not {before.rpartition(' is ')[2]}"
            for before, after in zip(found.before, found.after, strict=True)
        ]
    )
    typer.echo("No fewer changes suffice." if found.fewest else "Perhaps fewer suffice: not all sets were searched.")
    return None


def _row(about: Mapping[str, Any]) -> str:
    return f"Row {about['row']} of {about['data']}"


def _list(lines: Any) -> None:
    for line in lines[:_SHOWN]:
        typer.echo(f"  {line}")
    if len(lines) > _SHOWN:
        typer.echo(f"  and {len(lines) - _SHOWN} more (--json: all)")
