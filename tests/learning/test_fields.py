"""Fields of settings: what they take, what they make of it, and what is said of the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from lcml.errors import SettingsError
from lcml.learning.fields import check_fields, same_setting, setting


@dataclass(frozen=True)
class Some:
    count: int | None = setting(None, "A count.", least=1, most=9)
    share: float = setting(0.5, "A share.", above=0, below=1)
    kind: Literal["a", "b"] = setting("a", "A kind.")
    on: bool = setting(False, "A switch.")
    names: Sequence[str] = setting((), "Names.")
    pair: tuple[int, int] = setting((0, 0), "A pair.", least=0)
    either: Literal["none"] | np.ndarray[Any, Any] = setting("none", "A word or an array.")

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("count", np.int8(3), 3),
        ("count", None, None),
        ("share", np.float32(0.25), 0.25),
        ("kind", np.str_("b"), "b"),
        ("on", np.bool_(True), True),
        ("names", "one", ("one",)),
        ("names", ["one", "two"], ("one", "two")),
        ("pair", np.array([1, 2]), (1, 2)),
    ],
)
def test_values_are_kept_as_plain_ones(name: str, value: Any, kept: Any) -> None:
    found = getattr(Some(**{name: value}), name)
    assert (found, type(found)) == (kept, type(kept))
    if isinstance(kept, tuple):
        assert [type(item) for item in found] == [type(item) for item in kept]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", 0, "count: expected a whole number of at least 1 and at most 9, found 0"),
        ("count", 10, "count: expected a whole number of at least 1 and at most 9, found 10"),
        ("count", 2.0, "count: expected a whole number .*, found 2.0"),
        ("count", True, "count: expected a whole number .*, found True"),
        ("count", 2**63, "that fits 64 bits, found 9223372036854775808"),
        ("share", 0, "share: expected a finite number above 0 and below 1, found 0"),
        ("share", 1, "found 1$"),
        ("share", float("nan"), "found nan"),
        ("share", None, "found None"),
        ("share", 10**400, "found 10*"),
        ("kind", "c", "kind: expected one of a, b, found 'c'"),
        ("kind", ["a"], "found .'a'."),
        ("on", 1, "on: expected true or false, found 1"),
        ("names", 3, "names: expected a list, each text, found 3"),
        ("names", ["one", 2], "found ..one., 2."),
        ("pair", (1,), r"pair: expected a list of 2, each a whole number of at least 0, found \(1,\)"),
        ("pair", (1, -1), "found .1, -1."),
        ("either", "any", "either: expected one of none or a ndarray, found 'any'"),
    ],
)
def test_others_are_refused_by_name(name: str, value: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Some(**{name: value})


def test_a_field_like_another_takes_its_bounds() -> None:
    @dataclass(frozen=True)
    class Other:
        count: int = same_setting(Some, "count", default=2)

        def __post_init__(self) -> None:
            check_fields(self)

    assert Other().count == 2
    with pytest.raises(SettingsError, match="count: expected a whole number of at least 1 and at most 9, found 10"):
        Other(count=10)
