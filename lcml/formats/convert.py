"""Conversion between the model file and the authors' text formats."""

from dataclasses import replace
from pathlib import Path

from lcml import __version__
from lcml.errors import SettingsError
from lcml.formats.circuit_text import read_circuit, write_circuit
from lcml.formats.model_file import load_model, save_model
from lcml.formats.vtree_text import read_vtree, write_vtree
from lcml.model.model import LogisticCircuit

MODEL_SUFFIX, CIRCUIT_SUFFIX, VTREE_SUFFIX = ".lcml", ".circuit", ".vtree"


def convert(
    source: str | Path,
    target: str | Path,
    *,
    vtree: str | Path | None = None,
    vtree_out: str | Path | None = None,
    scale: float | None = None,
    classes: tuple[int, ...] | tuple[str, ...] | None = None,
) -> LogisticCircuit:
    """Convert a `.circuit` to a `.lcml` or the other way round, by the suffixes of `source` and `target`.

    To `.lcml`: vtree is the file of the circuit's vtree; the model divides raw features by `scale` (default 1).
    To `.circuit`: the vtree goes to `vtree_out`, by default beside the target with the suffix `.vtree`.
    Returns the model. Raises SettingsError for other suffixes or an option of the other direction, FormatError,
    OutputError.
    """
    source, target = Path(source), Path(target)
    direction = source.suffix.lower(), target.suffix.lower()
    if direction == (CIRCUIT_SUFFIX, MODEL_SUFFIX):
        if vtree is None or vtree_out is not None:
            raise SettingsError(f"{source}: to read a circuit, give the file of its vtree (--vtree) and no --vtree-out")
        model = read_circuit(source, read_vtree(vtree), scale=1.0 if scale is None else scale, classes=classes)
        provenance = {"converted_from": source.name, "vtree": Path(vtree).name, "lcml_version": __version__}
        model = replace(model, provenance=provenance)
        save_model(model, target)
    elif direction == (MODEL_SUFFIX, CIRCUIT_SUFFIX):
        if vtree is not None or scale is not None or classes is not None:
            raise SettingsError(f"{source}: --vtree, --scale and --classes belong to a circuit; a model has its own")
        vtree_target = target.with_suffix(VTREE_SUFFIX) if vtree_out is None else Path(vtree_out)
        if vtree_target.resolve() in (source.resolve(), target.resolve()):
            raise SettingsError(f"--vtree-out {vtree_target} is another file of this conversion; give it its own place")
        model = load_model(source)
        write_vtree(model.circuit.vtree, vtree_target)
        write_circuit(model, target)
    else:
        raise SettingsError(
            f"cannot convert {source} to {target}: expected one {CIRCUIT_SUFFIX} and one {MODEL_SUFFIX} file"
        )
    return model
