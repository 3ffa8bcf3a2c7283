"""Options from a recipe and a TOML file, whose keys are the names of the command's options; the command line wins."""

import difflib
import os
import tomllib
from collections.abc import Mapping
from typing import Any

import typer

from lcml.errors import SettingsError
from lcml.files import open_regular
from lcml.learning.fields import AnyField, about, checked
from lcml.runs.recipes import recipe_options


def given_options(
    ctx: typer.Context, options: Mapping[str, AnyField], *, not_in_file: tuple[str, ...]
) -> dict[str, Any]:
    """The options that the user gave: by the options recipe and config, and on the command line.

    What comes later wins; ~ in a path is the home directory. Raises SettingsError for an unknown recipe, a file that
    cannot be read, an unknown or doubled key, or a value that does not fit.
    """
    given: dict[str, Any] = {}
    allowed = {name: part for name, part in options.items() if name not in not_in_file}
    if (recipe := ctx.params["recipe"]) is not None:
        given |= checked_options(recipe_options(recipe), f"recipe {recipe}", allowed)
    if (path := ctx.params["config"]) is not None:
        given |= checked_options(_read(path), path, allowed)
    given |= {name: ctx.params[name] for name in options if is_typed(ctx, name)}
    paths = [name for name in given if about(options[name]).is_path and given[name] is not None]
    return given | {name: os.path.expanduser(given[name]) for name in paths}


def is_typed(ctx: typer.Context, name: str) -> bool:
    """Whether the option is on the command line."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _read(path: str) -> dict[str, Any]:
    try:
        with open_regular(os.path.expanduser(path)) as file:
            return tomllib.loads(file.read().decode("utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"cannot read the settings {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise SettingsError(f"{path} is no TOML file: {reason}") from error


def checked_options(content: Mapping[str, Any], source: str, options: Mapping[str, AnyField]) -> dict[str, Any]:
    """The options that `content` gives, by their names; SettingsError for one that does not fit."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in options:
            close = difflib.get_close_matches(name, options, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "`lcml train --help` lists what there is"
            raise SettingsError(f"{source}: unknown key {key!r}; {hint}")
        if name in found:
            raise SettingsError(f"{source}: {name!r} is given twice; drop one")
        try:
            found[name] = checked(options[name], value)
        except SettingsError as error:
            raise SettingsError(f"{source}: {error}") from error
    return found
