"""What the documentation shows works: commands and notebooks run, options exist, links lead somewhere."""

import copy
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from itertools import dropwhile
from pathlib import Path
from typing import Any

import nbformat
import pytest
import typer
from nbclient import NotebookClient
from typer.testing import CliRunner

from lcml.cli import COMMANDS, app
from lcml_serving.settings import Settings, flag

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"lcml (?P<arguments>[^#>|&;]*?) *(?:> (?P<file>\S+) *)?(?:#.*)?")
COMMAND = re.compile(
    r"(?:^ {4}|`|&& )((?:\w+=\S+ )?(?:\.venv/bin/)?(?:lcml|python -m|pytest)(?: [^`#\n&]*)?)", re.MULTILINE
)
"""In an indented block or a code span, behind variables of the environment."""
NOTEBOOK_SECONDS = 300


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in BLOCK.finditer(page.read_text())]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of `sh` and every `python` block, in order, in an empty directory.

    The first command of lcml of the README is a process, as for a reader; others are called here, where all is imported
    already.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    n_called = 0 if page.name == "README.md" else 1
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, page.name, "exec"), {"__name__": "__main__"})
            continue
        for line in text.splitlines():
            command = CALL.fullmatch(line)
            n_called += bool(command)
            if command and n_called > 1:
                result = CliRunner().invoke(app, shlex.split(command["arguments"]))
                assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"
                if command["file"]:
                    Path(command["file"]).write_text(result.stdout)
            else:
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", line], capture_output=True, text=True, timeout=300
                )
                assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def shown_commands() -> list[tuple[Path, list[str]]]:
    """Every command of lcml, Python or pytest that a page shows outside the blocks that run."""
    found = []
    for page in PAGES:
        for match in COMMAND.finditer(BLOCK.sub("", page.read_text())):
            words = shlex.split(match[1])
            found.append((page, list(dropwhile(lambda word: "=" in word, words))))
    return found


def test_commands_shown_exist() -> None:
    """Long trainings and services are not run, but their commands, options, modules and files are there."""
    group: Any = typer.main.get_command(app)
    of_service = {flag(field.name) for field in fields(Settings)}
    for page, (program, *words) in shown_commands():
        where = f"{page.name} shows {shlex.join([program, *words])}"
        if program == "python":
            assert importlib.util.find_spec(words[1]), where
        elif program == "pytest":
            assert all((ROOT / word).exists() for word in words if word.startswith("tests/")), where
        elif words and words[0] != "checkpoint" and words[0][0] != "-":  # the kind of a file; an option of Typer's
            assert words[0] in COMMANDS, where
            parameters = group.get_command(None, words[0]).params
            known = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
            known |= of_service if words[0] == "serve" else {"--help"}
            assert {word.split("=")[0] for word in words if re.match("--?[a-z]", word)} <= known, where


def test_every_command_is_shown() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in COMMANDS if f"lcml {name}" not in text] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_to_what_it_shows(path: Path, tmp_path: Path) -> None:
    shown = nbformat.read(path, 4)
    run = copy.deepcopy(shown)
    NotebookClient(run, timeout=NOTEBOOK_SECONDS, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in shown.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))

    def outputs(notebook: Any) -> list[list[Any]]:
        """Per cell, the kinds of its results; texts stay out, whose last digits depend on the machine."""
        per_cell = [cell.get("outputs", []) for cell in notebook.cells]
        return [[sorted(output["data"]) for output in of_cell if "data" in output] for of_cell in per_cell]

    assert outputs(run) == outputs(shown)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"
