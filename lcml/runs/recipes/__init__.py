"""Options of `lcml train` that were chosen for a data set, by name: the TOML files beside this module.

Each holds the options that differ from the defaults, and says in a comment what it was chosen on: validation examples,
never test examples.
"""

import tomllib
from importlib.resources import files
from typing import Any

from lcml.errors import SettingsError

_SUFFIX = ".toml"


def recipe_names() -> tuple[str, ...]:
    """The names of all recipes, sorted."""
    return tuple(
        sorted(file.name.removesuffix(_SUFFIX) for file in files(__name__).iterdir() if file.name.endswith(_SUFFIX))
    )


def recipe_options(name: str) -> dict[str, Any]:
    """The options of the recipe `name`, as its file gives them. Raises SettingsError for a name that is none."""
    names = recipe_names()
    if name not in names:
        raise SettingsError(f"recipe: expected one of {', '.join(names)}, found {name!r}")
    return tomllib.loads((files(__name__) / f"{name}{_SUFFIX}").read_text(encoding="utf-8"))
