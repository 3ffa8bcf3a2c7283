"""Files of every format, damaged at random: whatever a command makes of one, it ends in no traceback."""

import os
import random
from pathlib import Path

import pytest

from tests.attacks.attack import FULL, faults
from tests.attacks.damage import mutated
from tests.attacks.formats import FORMATS

N_MUTATIONS = int(os.environ.get("N", 10_000 if FULL else 30))


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_refused_or_read(name: str, folder: Path) -> None:
    form = FORMATS[name]
    file = folder / form.file
    content, found = file.read_bytes(), []
    for number in range(N_MUTATIONS):
        chance = random.Random(f"{name} {number}")
        file.write_bytes(mutated(content, chance))
        command = chance.choice(form.commands)
        if wrong := faults(form.arguments(command), may_succeed=True):
            found.append("\n".join((f"mutation {number}: {command}", *wrong)))
    assert not found, "\n".join(found)
