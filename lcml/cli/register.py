"""`lcml register`."""

import dataclasses
from typing import Annotated

import typer

from lcml.cli.common import JsonOption, TrackingUriOption, option, print_json


def register(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id or name of a run that has an ONNX model.")],
    name: Annotated[str, option("The registered model that gets a new version.", metavar="NAME")],
    alias: Annotated[str | None, option("What is to stand for this version from now on.", metavar="ALIAS")] = None,
    tracking_uri: TrackingUriOption = None,
    json: JsonOption = False,
) -> None:
    """Register the ONNX model of a run in MLflow's model registry.

    The run has one after `lcml train --export` or `lcml export --run RUN`; of several the last is taken.
    """
    from lcml.tracking import find_run
    from lcml.tracking import register as register_model

    version = register_model(find_run(run, tracking_uri).run_id, name, alias, tracking_uri)
    reference = f"models:/{name}@{alias}" if alias else f"models:/{name}/{version.version}"
    if json:
        return print_json({**dataclasses.asdict(version), "reference": reference})
    typer.echo(f"Registered version {version.version} of {name}; serve it with: lcml serve {reference}")
    return None
