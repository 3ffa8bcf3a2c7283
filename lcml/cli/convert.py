"""`lcml convert`."""

from typing import Annotated

import typer

from lcml.cli.common import option


def convert(
    source: Annotated[
        list[str], typer.Argument(metavar="INPUT...", help="A .circuit or .lcml file, or a .psdd file per class.")
    ],
    output: Annotated[str, option("The file to write: .lcml, .circuit or .psdd.", "--output", "-o", metavar="FILE")],
    vtree: Annotated[str | None, option("The vtree of a .circuit or .psdd to read.", metavar="FILE")] = None,
    scale: Annotated[
        float | None, option("The model divides raw features by this (255 for pixels).", metavar="S")
    ] = None,
    classes: Annotated[
        str | None, option("The classes of a .circuit or of .psdd files; by default 0, 1, ...", metavar="A,B,...")
    ] = None,
    priors: Annotated[
        str | None, option("Probabilities of the classes of .psdd files; by default equal.", metavar="P,P,...")
    ] = None,
    vtree_out: Annotated[
        str | None, option("Where the vtree of a model goes; by default beside the output.", metavar="FILE")
    ] = None,
) -> None:
    """Convert between a model file and the text formats of the paper's authors and of PSDDs.

    To a model: lcml convert mnist.circuit --vtree balanced.vtree --scale 255 -o mnist.lcml

    And back: lcml convert mnist.lcml -o mnist.circuit --vtree-out mnist.vtree

    The posterior of a distribution per class: lcml convert no.psdd yes.psdd --vtree a.vtree --classes no,yes -o m.lcml
    """
    from lcml.formats import convert as convert_file

    names = None if classes is None else _split(classes)
    shares = None if priors is None else _numbers(priors)
    model = convert_file(source, output, vtree=vtree, vtree_out=vtree_out, scale=scale, classes=names, priors=shares)
    circuit = model.circuit
    typer.echo(
        f"{output}: {circuit.n_variables} variables, {len(model.classes)} classes, {circuit.n_or_gates} or gates, "
        f"{circuit.n_elements} elements, {model.n_parameters} parameters"
    )


def _split(classes: str) -> tuple[int, ...] | tuple[str, ...]:
    """Whole numbers where all are; SettingsError for an empty or repeated name."""
    from lcml.errors import SettingsError

    names = [name.strip() for name in classes.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise SettingsError(f"classes: expected distinct names with commas between them, found {classes!r}")
    try:
        return tuple(int(name) for name in names)
    except ValueError:
        return tuple(names)


def _numbers(priors: str) -> list[float]:
    """SettingsError for what is no list of numbers."""
    from lcml.errors import SettingsError

    try:
        return [float(text) for text in priors.split(",")]
    except ValueError:
        raise SettingsError(f"priors: expected numbers with commas between them, found {priors!r}") from None
