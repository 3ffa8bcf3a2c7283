"""`lcml report`."""

from pathlib import Path
from typing import Annotated

import typer

from lcml.cli.common import (
    BackendOption,
    DataArgument,
    DataDirOption,
    JsonOption,
    ModelArgument,
    RowsOption,
    TargetOption,
    note,
    open_backend,
    option,
    print_json,
)

OutputOption = Annotated[
    Path | None, option("The page; else MODEL.html beside the model.", "--output", "-o", metavar="FILE.html")
]


def report(
    model: ModelArgument,
    data: DataArgument,
    output: OutputOption = None,
    target: TargetOption = None,
    data_dir: DataDirOption = None,
    rows: RowsOption = None,
    json: JsonOption = False,
    backend: BackendOption = "auto",
) -> None:
    """Write all that can be seen of a model as one page: how good it is, why, where it fails, what it is made of.

    The page holds everything in itself: no request leaves it, and it can be read without JavaScript.
    """
    from lcml.cli.inputs import rows_to_measure
    from lcml.explain.report.measured import Measured
    from lcml.explain.report.report import report_page
    from lcml.files import check_place, write_atomically
    from lcml.formats import load_model

    path = check_place(Path(model).with_suffix(".html") if output is None else output)
    device = open_backend(backend)
    loaded = load_model(model)
    found = rows_to_measure(loaded, data, rows, target=target, data_dir=data_dir)
    note(found.warning)
    examples = found.examples
    measured = Measured(loaded, examples.features, examples.labels, found.which, data, device, found.warning)
    content = report_page(measured).encode()
    write_atomically(path, content)
    if json:
        values = {"model_path": model, "data": data, "rows": found.which, "n_rows": len(examples)}
        return print_json(values | {"warning": found.warning, "report_path": str(path), "n_bytes": len(content)})
    typer.echo(f"{path}: {len(examples):,} {found.which} rows of {data}, {len(content) / 1e6:.2f} MB")
    return None
