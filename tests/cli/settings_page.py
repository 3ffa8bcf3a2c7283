"""docs/settings.md, from the fields of the settings: python -m tests.cli.settings_page writes it."""

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from lcml.learning.fields import AnyField, about, alternatives, bounds, is_list
from lcml.runs.config import options

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
_TYPES = {int: "whole number", float: "number", str: "text", bool: "true, false"}
_HEAD = """# Settings

Every option of `lcml train`. Its name is also the key in a file for `--config` and, with `_` for `-`, the argument of
`LogisticCircuitClassifier`, which has those of Structure (but `vtree_offset`), Limits (but `prune_to`), Model
selection, Weights and Computation, and of Data `valid_fraction`, `encoder`, `columns` (by column, `--column`),
`class_weight`, `divisor`, `image_shape`, `channels`, `pool`, `patches` and `augment`, and of Results `missing`. Beside
these it has `random_state` (another name for `seed`), `verbose`, `n_jobs` (most threads, -1 for all cores) and
`warm_start`: `fit` begins with structure and weights of the last fit, for more rounds or other rows of the same columns
and classes. That is for splits (of a table with `structure="splits"`); a copy begins anew.
`python -m tests.cli.settings_page` makes this page from the program.
"""


def page() -> str:
    """The page as it should be."""
    text, panel = _HEAD, ""
    for part in options().values():
        if about(part).panel != panel:
            panel = about(part).panel or ""
            text += f"\n## {panel}\n\n| option | value | default | |\n|---|---|---|---|\n"
        flags = " ".join(f"`{flag}`" for flag in _flags(part))
        text += f"| {flags} | {_value(part)} | {_default(part)} | {about(part).help} |\n"
    return text


def _flags(part: AnyField) -> tuple[str, ...]:
    own = "DATA" if part.name == "data" else "--" + part.name.replace("_", "-")
    return about(part).flags or (own,)


def _value(part: AnyField) -> str:
    hint, *others = alternatives(part.type)
    several = is_list(hint)
    if several:
        hint = get_args(hint)[0]
    if get_origin(hint) is Literal:
        return ", ".join([*(f"`{choice}`" for choice in get_args(hint)), *(_kind(other, part) for other in others)])
    shown = _kind(hint, part)
    return f"{shown}, several" if several else shown


def _kind(hint: Any, part: AnyField) -> str:
    kind = "two whole numbers" if get_origin(hint) is tuple else _TYPES[hint]
    return about(part).metavar or f"{kind} {bounds(about(part))}".rstrip()


def _default(part: AnyField) -> str:
    if part.default in (None, ()):
        return ""
    if isinstance(part.default, bool):
        return str(part.default).lower()
    values = part.default if isinstance(part.default, tuple) else (part.default,)
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


if __name__ == "__main__":
    PAGE.write_text(page())
