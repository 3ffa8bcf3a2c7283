"""What a row came to, and its file: one JSON object per row, so that a row that is there is not run again."""

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcml.errors import FormatError, SettingsError
from lcml.files import write_atomically
from lcml.learning.fields import typed

_KIND = "lcml reproduce row 1"
_NOT_COMPARED = ("backend", "memory_budget")  # settings that say where a circuit was learned, not what it becomes
_AUTO = {"encoder": "scale", "metric": "accuracy"}  # what models of images name that are older than "auto"


@dataclass(frozen=True)
class RowResult:
    """A row that has been run. settings: all that decided it; accuracies: shares of 1; n_stored: what a baseline
    without parameters keeps, the numbers of its support vectors or the nodes of its trees; seconds: of the fit;
    n_iterations: of a baseline's solver or a circuit's rounds; converged: whether it ended before its cap; run_id: in
    the tracking store; machine: versions and device."""

    name: str
    quick: bool
    settings: Mapping[str, Any]
    fingerprint: str
    n_train: int
    n_valid: int
    n_test: int
    n_parameters: int | None
    n_stored: int | None
    valid_accuracy: float
    test_accuracy: float
    n_iterations: int | None
    converged: bool
    seconds: float
    seed: int
    run_id: str | None
    machine: Mapping[str, str]


def row_path(directory: Path, name: str) -> Path:
    return directory / "rows" / f"{name}.json"


def save_row(directory: Path, result: RowResult) -> None:
    """Write the row, whole or not at all. Raises OutputError."""
    content = {"kind": _KIND, **dataclasses.asdict(result)}
    write_atomically(row_path(directory, result.name), json.dumps(content, indent=2, allow_nan=False) + "\n")


def load_row(directory: Path, name: str) -> RowResult | None:
    """The row `name`, None where it has not been run. Raises FormatError for a file that is damaged or another."""
    path = row_path(directory, name)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise FormatError(f"is no row of lcml reproduce ({error}); delete it to run the row again", path) from error
    with contextlib.suppress(AttributeError, KeyError, TypeError):  # what it holds is something else
        if content.pop("kind") == _KIND and content["name"] == name:
            return typed(RowResult(**content))
    raise FormatError(f"is no row {name} of lcml reproduce; delete it to run the row again", path)


def check_same(found: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """SettingsError where what is at `found` was made with settings `before` that differ from those asked for `now`."""
    name = difference(before, now)
    if name is not None:
        raise SettingsError(
            f"{found} was made with {name} {before[name]}, but {now[name]} is asked for; delete it to run the row "
            "again, or choose another --output"
        )


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """A setting of both that decides what a row becomes and differs, None where there is none."""
    spelt_out = {name: _AUTO.get(name, value) if value == "auto" else value for name, value in now.items()}
    differing = (
        name
        for name, value in now.items()
        if name in before and before[name] not in (value, spelt_out[name]) and name not in _NOT_COMPARED
    )
    return next(differing, None)
