"""What commands share: options of the same meaning, and how results are printed."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from lcml.backend import Backend, BackendName, get_backend, why_slow
from lcml.data.named import NAMED_SETS
from lcml.errors import MissingDependencyError
from lcml.inputs.channels import CHANNELS
from lcml.learning.fields import AnyField, about, is_list
from lcml.runs.config import options
from lcml.runs.recipes import recipe_names


def option(help: str, *flags: str, metavar: str | None = None, panel: str | None = None, **limits: Any) -> Any:
    """typer.Option, with what it says first."""
    return typer.Option(*flags, help=help, metavar=metavar, rich_help_panel=panel, **limits)


def setting_option(part: AnyField) -> Any:
    """The option of a setting, as Typer takes it: named as its field, or by its flags."""
    said = about(part)
    more = " Repeat the option for several." if is_list(part.type) else ""
    return typer.Option(
        *said.flags,
        help=said.help + more,
        metavar=said.metavar,
        rich_help_panel=said.panel,
        autocompletion=_COMPLETIONS.get(part.name),
    )


def complete_data(incomplete: str) -> list[str]:
    """The named sets that begin so; where none does, a shell completes files."""
    return _starting(incomplete, NAMED_SETS)


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


_COMPLETIONS: Mapping[str, Callable[[str], list[str]]] = {
    "channels": lambda incomplete: _starting(incomplete, CHANNELS),
    "recipe": lambda incomplete: _starting(incomplete, recipe_names()),
}

_RUN = options()
TargetOption = Annotated[str | None, setting_option(_RUN["target"])]
DataDirOption = Annotated[str | None, setting_option(_RUN["data_dir"])]
JsonOption = Annotated[bool, option("Print one JSON object on stdout and nothing else there.", "--json")]

RowsOption = Annotated[
    str | None,
    option(
        "train, valid or test: those of the training's division of these data; all. By default the test rows "
        "of the data trained on and of a set with test examples of its own, all of any other file.",
        "--rows",
        "--split",
        metavar="ROWS",
    ),
]
BackendOption = Annotated[BackendName, option("Where to compute; auto: cupy where a CUDA device answers.")]
TrackingUriOption = Annotated[
    str | None,
    option(
        "Where runs are recorded; else as MLFLOW_TRACKING_URI says, else sqlite:///mlruns/mlflow.db.", metavar="URI"
    ),
]
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="The model file (.lcml).")]
DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Name of a set (digits, mnist, ...), a directory of IDX files or of features.npy and labels.npy, or an "
        ".npz, .csv or .parquet file.",
        autocompletion=complete_data,
    ),
]

_FILE_WIDTH = 240  # columns of a table that is written to a file or pipe


def note(sentence: str | None) -> None:
    """A line on stderr, beside what a command prints; nothing for None."""
    if sentence:
        typer.echo(f"lcml: {sentence}", err=True)


def require_packages(*packages: str, extra: str, purpose: str) -> None:
    """MissingDependencyError for the first of these packages that is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingDependencyError(package, extra, purpose)


def open_backend(name: BackendName) -> Backend:
    """The backend, after a line on stderr where a faster one is missing."""
    note(why_slow(name))
    return get_backend(name)


def print_json(values: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(values, allow_nan=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on stdout, numbers to the right; not cut where stdout is no terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    table, cells = Table(box=box.SIMPLE_HEAD), [list(row) for row in rows]
    for j, column in enumerate(columns):
        is_number = any(isinstance(row[j], int | float) for row in cells)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)


def _cell(value: object) -> str:
    from rich.markup import escape

    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else escape(str(value))
