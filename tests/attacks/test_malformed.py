"""Malformed input to every command, of every format: exit code 2, one sentence, nothing left behind."""

import shlex
from pathlib import Path

import pytest

from tests.attacks.attack import FULL, WENT_ON, faults, faults_apart
from tests.attacks.formats import FORMATS
from tests.attacks.malformed import OF_FORMAT, OPTIONS, cases, write
from tests.cli.commands import run

ATTEMPT, STRIDE = (faults_apart, 1) if FULL else (faults, 3)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_whole_is_read(name: str, folder: Path) -> None:
    for command in FORMATS[name].commands:
        result = run(*FORMATS[name].arguments(command))
        assert result.exit_code == 0 or any(end in result.stderr for end in WENT_ON), result.stderr


@pytest.mark.parametrize("name", FORMATS)
def test_a_malformed_file_is_told_in_a_sentence(name: str, folder: Path) -> None:
    form, found = FORMATS[name], []
    path = folder / form.file
    content = path.read_bytes()
    for what, damage, command in cases(name)[::STRIDE]:
        write(path, damage)
        if wrong := ATTEMPT(form.arguments(command)):
            found.append("\n".join((f"{what}: {command}", *wrong)))
        if path.is_dir():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_bytes(content)
    assert not found, "\n".join(found)


def test_malformed_options_are_told_in_a_sentence(folder: Path) -> None:
    found = [
        "\n".join((command[:80], *wrong)) for command in OPTIONS[::STRIDE] if (wrong := ATTEMPT(shlex.split(command)))
    ]
    assert not found, "\n".join(found)


def test_there_are_enough_of_them() -> None:
    assert sum(len(cases(name)) for name in FORMATS) + len(OPTIONS) >= 400
    assert set(OF_FORMAT) == set(FORMATS)
