"""Fields of a record of settings: name, type, bounds, default and help said once.

The command line, its TOML files, the estimator and docs/settings.md are all read from them.
"""

import math
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import numpy as np

from lcml.errors import SettingsError, shown

MOST_WHOLE = 2**63 - 1
"""The largest whole number of any setting: what arrays and files hold."""

AnyField: TypeAlias = Field[Any]
_Record = TypeVar("_Record")
_UNFIT = TypeError, ValueError, OverflowError
_NAMES = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false"}


@dataclass(frozen=True)
class About:
    """What is said of a setting beside its name, type and default.

    panel: under which it is listed; least, most: bounds of a number, or of each in a list; above, below: bounds that it
    does not reach; metavar: what stands for its value; flags: its options, where they are not made of its name;
    is_path: whether ~ in it is the home directory.
    """

    help: str
    panel: str | None = None
    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    is_path: bool = False


def setting(default: Any, help: str, panel: str | None = None, **about: Any) -> Any:
    """The dataclass field of a setting; `about` is the rest of `About`."""
    return field(default=default, metadata={"about": About(help, panel, **about)})


def same_setting(record: type, name: str, default: Any = None) -> Any:
    """A field like `name` of `record`: the same help, bounds and, where none is given, default."""
    (part,) = (part for part in fields(record) if part.name == name)
    return field(default=part.default if default is None else default, metadata=part.metadata)


def about(part: AnyField) -> About:
    found: About = part.metadata["about"]
    return found


def check_fields(record: Any) -> None:
    """Every setting of a new record as `checked` returns it. Raises SettingsError as it does."""
    for part in fields(record):
        if "about" in part.metadata:
            object.__setattr__(record, part.name, checked(part, getattr(record, part.name)))


def checked(part: AnyField, value: Any) -> Any:
    """`value` as the setting keeps it: numbers as Python's own, lists as tuples, one text for a list of texts.

    Raises SettingsError, which names the setting, for a value of another type or beyond the bounds.
    """
    try:
        return _converted(value, part.type, about(part))
    except _UNFIT:
        large = " that fits 64 bits" if isinstance(value, int) and abs(value) > MOST_WHOLE else ""
        raise SettingsError(f"{part.name}: expected {expected(part)}{large}, found {shown(value)}") from None


def expected(part: AnyField) -> str:
    """The values of a setting in words."""
    return _in_words(part.type, about(part))


def bounds(said: About) -> str:
    """The bounds of a number in words, '' where there are none."""
    words = ("of at least", said.least), ("above", said.above), ("at most", said.most), ("below", said.below)
    return " and ".join(f"{word} {bound:g}" for word, bound in words if math.isfinite(bound))


def alternatives(hint: Any) -> Iterator[Any]:
    """The types of a union but None, or the one type that it is."""
    union = get_origin(hint) in (Union, types.UnionType)
    return (one for one in (get_args(hint) if union else (hint,)) if one is not types.NoneType)


def is_list(hint: Any) -> bool:
    """Whether it is a list of any length."""
    return get_origin(hint) is Sequence or (get_origin(hint) is tuple and get_args(hint)[-1] is ...)


def typed(record: _Record) -> _Record:
    """The record, whose fields hold what they are declared to: plain values, records, and lists and mappings of such.

    Raises TypeError where one does not. What is declared in other ways is not looked at.
    """
    for part in fields(record):  # type: ignore[arg-type]  # a dataclass
        if not _is_of(getattr(record, part.name), part.type):
            raise TypeError(f"{part.name}: found {shown(getattr(record, part.name)):.40}")
    return record


def _is_of(value: Any, hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_is_of(value, one) for one in args)
    if origin is Mapping:
        return isinstance(value, dict) and all(_is_of(k, args[0]) and _is_of(v, args[1]) for k, v in value.items())
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(_is_of(one, args[0]) for one in value)
    if origin is not None or hint is Any or not isinstance(hint, type):
        return True
    return isinstance(value, (float, int) if hint is float else hint) and (hint is bool or not isinstance(value, bool))


def _converted(value: Any, hint: Any, said: About) -> Any:
    """`checked`, with one of `_UNFIT` for what does not fit."""
    args = get_args(hint)
    if value is None and types.NoneType in args:
        return None
    if (options := list(alternatives(hint))) != [hint]:
        if isinstance(value, str) and float in options:  # as the command line gives a number
            with suppress(ValueError):
                value = float(value)
        for option in options:
            with suppress(*_UNFIT):
                return _converted(value, option, said)
        _refuse()
    if get_origin(hint) is Literal:
        return args[args.index(value)] if isinstance(value, str) else _refuse()
    if is_list(hint) or get_origin(hint) is tuple:
        if isinstance(value, str):
            value = (value,)
        hints = [args[0]] * len(value) if is_list(hint) else args
        return tuple(_converted(item, one, said) for item, one in zip(value, hints, strict=True))
    if hint in (int, float):
        is_number = isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
        number = hint(value) if is_number else _refuse()
        within = said.least <= number <= said.most and said.above < number < said.below
        return number if within and abs(number) <= (MOST_WHOLE if hint is int else math.inf) else _refuse()
    if hint is bool and isinstance(value, np.bool_):
        return bool(value)
    is_one = isinstance(value, get_origin(hint) or hint)
    return value if is_one and (hint is not str or "\0" not in value) else _refuse()  # no path has a 0


def _refuse() -> Any:
    raise ValueError


def _in_words(hint: Any, said: About) -> str:
    args = get_args(hint)
    if (options := list(alternatives(hint))) != [hint]:
        return " or ".join(_in_words(option, said) for option in options)
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(args)
    if is_list(hint):
        return f"a list, each {_in_words(args[0], said)}"
    if get_origin(hint) is tuple:
        return f"a list of {len(args)}, each {_in_words(args[0], said)}"
    if hint in (int, float):
        return f"{_NAMES[hint]} {bounds(said)}".rstrip()
    return _NAMES.get(hint) or f"a {hint.__name__}"
