"""Messages: bounded, whatever they quote."""

import pytest

from lcml.errors import FormatError, OutputError, SettingsError, shortened, shown


def test_what_is_short_stands() -> None:
    message = f"{'/directory' * 25}/file: " + "expected one of these, " * 60
    assert shortened(message) == message
    assert str(FormatError("is damaged", "a.lcml", 3)) == "a.lcml:3: is damaged"


@pytest.mark.parametrize("error", [SettingsError, OutputError, FormatError])
def test_what_is_long_loses_its_middle(error: type[Exception]) -> None:
    word = str(error(f"--rounds: found '{'9' * 25_000}'; give a smaller one"))
    assert word.startswith("--rounds: found '9999")
    assert word.endswith("999'; give a smaller one")
    assert len(word) < 250
    text = str(error(f"found {[1] * 25_000}"))
    assert text.startswith("found [1, 1, ")
    assert text.endswith(", 1]")
    assert len(text) < 1100


def test_a_value_that_python_cannot_print() -> None:
    assert shown("a") == "'a'"
    assert shown(16**9000) == "a value of type int, too long to show"
