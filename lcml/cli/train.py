"""`lcml train`. Its options are the fields of the settings records, and a few of the program's own."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import GenericAlias
from typing import Annotated, Any, get_args

import typer

from lcml.cli.common import complete_data, print_json, setting_option
from lcml.cli.config_file import given_options, is_typed
from lcml.errors import SettingsError
from lcml.learning.fields import about, alternatives, is_list, setting
from lcml.runs.config import options
from lcml.runs.recipes import recipe_names

_NOT_IN_FILE = ("recipe", "config", "resume")
_FOR_TRACKING = ("tracking_uri", "experiment", "run_name")
_INTERRUPTED = 130


@dataclass(frozen=True)
class Program:
    """The options that are not of the run."""

    recipe: str | None = setting(
        None,
        f"Options chosen for a data set: {', '.join(recipe_names())}. --config and the command line win.",
        metavar="NAME",
    )
    config: str | None = setting(
        None, "Options, by their names; the command line wins.", metavar="FILE.toml", is_path=True
    )
    resume: str | None = setting(
        None, "Go on from the checkpoint of an MLflow run, or from a file.", metavar="RUN|PATH", is_path=True
    )
    json: bool = setting(False, "Print one JSON object on stdout and nothing else there.", flags=("--json",))
    quiet: bool = setting(False, "Show no progress.", flags=("--quiet", "-q"))
    profile: bool = setting(False, "Print the seconds of every phase at the end.", flags=("--profile",))


_OF_PROGRAM = {part.name: part for part in fields(Program)}
OPTIONS = {**options(), **_OF_PROGRAM}
"""Every option of the command by its name."""


def train(ctx: typer.Context, **_: Any) -> None:
    """Learn a logistic circuit from DATA, save it, and record the run.

    DATA: digits, breast-cancer, wine, iris, mnist, fashion-mnist, or a path. Ctrl-C stops after the step at hand and
    saves the best model so far.
    """
    given = given_options(ctx, OPTIONS, not_in_file=_NOT_IN_FILE)
    program = Program(**{name: given.pop(name) for name in _OF_PROGRAM if name in given})
    if program.recipe and program.resume:
        raise SettingsError("--recipe cannot change in a run that goes on; leave it out, or start a new run")
    if ctx.params["no_tracking"]:  # typed, so it wins over what a file says of tracking
        given = {name: value for name, value in given.items() if name not in _FOR_TRACKING or is_typed(ctx, name)}
    try:
        from lcml.cli import run_training

        with run_training.prepared_run(given, program.resume) as (prepared, sender):
            outcome, tracker, exit_code = run_training.run(prepared, sender, quiet=program.quiet)
            exported = run_training.export_onnx(prepared, outcome, tracker)
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    if program.json:
        print_json(run_training.result(prepared, outcome, tracker, exported))
    else:
        run_training.print_summary(prepared, outcome, tracker, exported)
        if program.profile:
            run_training.print_profile(outcome)
    if exit_code:
        raise typer.Exit(exit_code)


def _parameters() -> Iterator[inspect.Parameter]:
    """What Typer reads the options from: the context, then a parameter for every setting."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    yield inspect.Parameter("ctx", kind, annotation=typer.Context)
    for name, part in OPTIONS.items():
        hint: Any = part.type
        default: Any = part.default
        if len(list(alternatives(hint))) > 1:
            hint = str
        if is_list(hint):  # what Typer calls an option that is repeated
            hint, default = GenericAlias(list, get_args(hint)[0]), list(default)
        as_typer = setting_option(part)
        if name == "data":
            as_typer = typer.Argument(help=about(part).help, autocompletion=complete_data)
        yield inspect.Parameter(name, kind, default=default, annotation=Annotated[hint, as_typer])


train.__signature__ = inspect.Signature(list(_parameters()))  # type: ignore[attr-defined]
