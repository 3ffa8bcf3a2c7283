"""`lcml serve`."""

from typing import Annotated

import typer

from lcml.cli.common import TrackingUriOption, require_packages

TYPER_OPTIONS = {"add_help_option": False, "context_settings": {"ignore_unknown_options": True}}
"""Options that are not ours, --help among them, are the service's."""

_NEEDED = ("onnxruntime", "prometheus_client", "starlette", "uvicorn")


def serve(
    ctx: typer.Context,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL", help="FILE.onnx, a directory with NAME/VERSION/model.onnx, or models:/NAME@ALIAS."
        ),
    ] = None,
    tracking_uri: TrackingUriOption = None,
) -> None:
    """Serve exported models over HTTP.

    A registered model, models:/NAME@ALIAS or models:/NAME/VERSION, is fetched once, before the service starts, and
    served under its name and version. All other options are those of the service, below.
    """
    import tempfile
    from pathlib import Path

    from lcml.tracking import fetch_onnx, is_reference

    require_packages(*_NEEDED, extra="serving", purpose="lcml serve")
    from lcml_serving.__main__ import main

    given = arguments or []
    if {"--help", "-h"} & set(given):
        typer.echo(ctx.get_help())
    with tempfile.TemporaryDirectory(prefix="lcml-serve-") as repository:
        passed_on: list[str] = []
        for argument in given:
            if not is_reference(argument):
                passed_on.append(argument)
                continue
            fetch_onnx(argument, Path(repository), tracking_uri)
            if repository not in passed_on:  # once: it holds all that is fetched
                passed_on.append(repository)
        code = main(passed_on)
    if code:
        raise typer.Exit(code)
