"""Options from a recipe and a TOML file, whose keys are the names of the command's options; the command line wins."""

import difflib
import tomllib
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from lcml.errors import SettingsError
from lcml.runs.recipes import recipe_options

_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def given_options(ctx: typer.Context, command: Callable[..., Any], *, not_in_file: tuple[str, ...]) -> dict[str, Any]:
    """The options of a running `command` that the user gave: by its options recipe and config, and on the command line.

    What comes later wins. Raises SettingsError for an unknown recipe, a file that cannot be read, an unknown or doubled
    key, or a value of the wrong type.
    """
    hints = {name: hint for name, hint in get_type_hints(command).items() if name in ctx.params}
    given: dict[str, Any] = {}
    allowed = {name: hint for name, hint in hints.items() if name not in not_in_file}
    if (recipe := ctx.params["recipe"]) is not None:
        given |= checked_options(recipe_options(recipe), f"recipe {recipe}", allowed)
    if (path := ctx.params["config"]) is not None:
        given |= checked_options(_read(path), path, allowed)
    return given | {name: ctx.params[name] for name in hints if _is_typed(ctx, name)}


def _is_typed(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _read(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the settings {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise SettingsError(f"{path} is no TOML file: {error}") from error


def checked_options(content: Mapping[str, Any], source: str, hints: Mapping[str, Any]) -> dict[str, Any]:
    """The options that `content` gives, by their names in `hints`; SettingsError for one that does not fit."""
    options: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in hints:
            close = difflib.get_close_matches(name, hints, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "`lcml train --help` lists what there is"
            raise SettingsError(f"{source}: unknown key {key!r}; {hint}")
        if name in options:
            raise SettingsError(f"{source}: {name!r} is given twice; drop one")
        if not _fits(value, hints[name]):
            raise SettingsError(f"{source}: {key}: expected {_described(hints[name])}, found {value!r}")
        options[name] = value
    return options


def _fits(value: Any, hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return isinstance(value, str) and value in args
    if origin in (Union, types.UnionType):
        return any(_fits(value, arg) for arg in args if arg is not type(None))
    if origin is list:
        return isinstance(value, list) and all(_fits(item, args[0]) for item in value)
    if origin is tuple:
        return isinstance(value, list) and len(value) == len(args) and all(map(_fits, value, args))
    if hint is float:
        return type(value) in (int, float)
    return type(value) is hint


def _described(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, args))
    if origin in (Union, types.UnionType):
        return _described(next(arg for arg in args if arg is not type(None)))
    if origin is list:
        return f"a list, each {_described(args[0])}"
    if origin is tuple:
        return f"a list of {len(args)}, each {_described(args[0])}"
    return _NAMES[hint]
