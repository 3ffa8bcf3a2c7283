"""`lcml export`."""

from typing import Annotated, Any

import typer

from lcml.cli.common import JsonOption, TrackingUriOption, option, print_json

_INTO, _GRAPH = "Where to", "Graph"


def export(
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help="The model file (.lcml).")] = None,
    output: Annotated[
        str | None,
        option(
            "A file, or a model repository that gets NAME/VERSION/model.onnx.",
            "--output",
            "-o",
            metavar="DIR|FILE.onnx",
            panel=_INTO,
        ),
    ] = None,
    run: Annotated[
        str | None,
        option(
            "Instead of MODEL and --output: export the model of an MLflow run, given by id or name, and log the "
            "result to that run.",
            metavar="RUN",
            panel=_INTO,
        ),
    ] = None,
    tracking_uri: TrackingUriOption = None,
    name: Annotated[
        str | None, option("Name in a repository; else that of MODEL.", metavar="NAME", panel=_INTO)
    ] = None,
    version: Annotated[int | None, option("Version in a repository; else 1.", metavar="N", panel=_INTO)] = None,
    profile: Annotated[
        str, option("auto, throughput, latency, portable, flows or scatter: see docs/export.md.", panel=_GRAPH)
    ] = "auto",
    inputs: Annotated[
        str | None,
        option("Of a table: columns (an input per column, the default) or matrix (numbers only).", panel=_GRAPH),
    ] = None,
    input_dtype: Annotated[
        str,
        option(
            "Type of the features: float32, uint8, float64, or auto: float32 where that holds them, else float64.",
            panel=_GRAPH,
        ),
    ] = "auto",
    logits: Annotated[bool, option("Add the output logits.", "--logits", panel=_GRAPH)] = False,
    explain: Annotated[
        bool,
        option("Add the output contributions, and a file that says in words what each is.", "--explain", panel=_GRAPH),
    ] = False,
    opset: Annotated[int | None, option("Opset of ai.onnx; else 18.", metavar="N", panel=_GRAPH)] = None,
    precision: Annotated[
        str, option("Of the weights: float32, or int16 or int8: integers with a scale per class.", panel=_GRAPH)
    ] = "float32",
    self_check: Annotated[bool, option("Run the graph against the model before writing it.", panel=_GRAPH)] = True,
    json: JsonOption = False,
) -> None:
    """Write a model as ONNX, checked against the model itself.

    To a file or a model repository:  lcml export digits.lcml -o digits.onnx

    To the MLflow run it came from:   lcml export --run RUN
    """
    from lcml.cli import run_export
    from lcml.errors import SettingsError

    options: dict[str, Any] = {"profile": profile, "input_dtype": input_dtype, "logits": logits, "explain": explain}
    options |= {"inputs": inputs, "opset": opset, "precision": precision, "self_check": self_check}
    place = {key: value for key, value in (("name", name), ("version", version)) if value is not None}
    if run is not None:
        if model is not None or output is not None or place:
            raise SettingsError(
                "--run takes the run's model and logs to the run; leave MODEL, -o, --name, --version out"
            )
        exported = run_export.export_run(run, tracking_uri, **options)
    elif model is None or output is None:
        raise SettingsError("what to export, and where to? expected MODEL and -o DIR or FILE.onnx, or --run RUN")
    elif place and output.endswith(".onnx"):
        raise SettingsError(f"--name and --version are for a repository, but {output} is a file; leave them out")
    else:
        exported = run_export.export_file(model, output, **options, **place)
    if json:
        return print_json(exported.as_json())
    for line in exported.lines():
        typer.echo(line)
    return None
