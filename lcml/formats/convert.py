"""Conversion between the model file and the text formats of circuits."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lcml import __version__
from lcml.errors import CircuitError, SettingsError
from lcml.formats.circuit_text import read_circuit, write_circuit
from lcml.formats.model_file import load_model, save_model
from lcml.formats.psdd_text import read_psdd, write_psdd
from lcml.formats.vtree_text import read_vtree, write_vtree
from lcml.inputs.encoders import fit_encoder
from lcml.model.model import LogisticCircuit
from lcml.model.probabilistic import from_distributions

MODEL_SUFFIX, CIRCUIT_SUFFIX, PSDD_SUFFIX, VTREE_SUFFIX = ".lcml", ".circuit", ".psdd", ".vtree"


def convert(
    source: str | Path | Sequence[str | Path],
    target: str | Path,
    *,
    vtree: str | Path | None = None,
    vtree_out: str | Path | None = None,
    scale: float | None = None,
    classes: tuple[int, ...] | tuple[str, ...] | None = None,
    priors: Sequence[float] | None = None,
) -> LogisticCircuit:
    """Convert a `.circuit`, or a `.psdd` per class, to a `.lcml` or the other way round, by the suffixes of `source`
    and `target`.

    To `.lcml`: vtree is the file of the circuit's vtree; the model divides raw features by `scale` (default 1). Of
    distributions of one structure it is the posterior, with `priors` of the classes (default: equal ones).
    To `.circuit`, or to `.psdd`, the distribution that the model keeps for missing inputs: the vtree goes to
    `vtree_out`, by default beside the target with the suffix `.vtree`.
    Returns the model. Raises SettingsError for other suffixes or an option of the other direction, FormatError,
    CircuitError, OutputError.
    """
    given = [source] if isinstance(source, str | Path) else list(source)
    sources, target = [Path(path) for path in given], Path(target)
    suffixes, named = {path.suffix.lower() for path in sources}, ", ".join(map(str, sources))
    to_text = target.suffix.lower() in (CIRCUIT_SUFFIX, PSDD_SUFFIX)
    if suffixes in ({CIRCUIT_SUFFIX}, {PSDD_SUFFIX}) and target.suffix.lower() == MODEL_SUFFIX:
        if vtree is None or vtree_out is not None:
            raise SettingsError(f"{named}: to read a circuit, give the file of its vtree (--vtree) and no --vtree-out")
        if suffixes == {PSDD_SUFFIX}:
            model = _posterior(sources, vtree, 1.0 if scale is None else scale, classes, priors)
        elif priors is not None or len(sources) > 1:
            raise SettingsError(f"{named}: a {CIRCUIT_SUFFIX} holds all classes; give one file and no --priors")
        else:
            model = read_circuit(sources[0], read_vtree(vtree), scale=1.0 if scale is None else scale, classes=classes)
        files = ", ".join(path.name for path in sources)
        provenance = {"converted_from": files, "vtree": Path(vtree).name, "lcml_version": __version__}
        model = replace(model, provenance=provenance)
        save_model(model, target)
    elif suffixes == {MODEL_SUFFIX} and len(sources) == 1 and to_text:
        if any(option is not None for option in (vtree, scale, classes, priors)):
            raise SettingsError(
                f"{named}: --vtree, --scale, --classes and --priors belong to a circuit; a model has its own"
            )
        vtree_target = target.with_suffix(VTREE_SUFFIX) if vtree_out is None else Path(vtree_out)
        if vtree_target.resolve() in (sources[0].resolve(), target.resolve()):
            raise SettingsError(f"--vtree-out {vtree_target} is another file of this conversion; give it its own place")
        model = load_model(sources[0])
        distribution = None if model.missing is None else model.missing.distribution
        if target.suffix.lower() == PSDD_SUFFIX and distribution is None:
            raise SettingsError(f"{named} keeps no distribution; train it with --missing expected to have one")
        write_vtree(model.circuit.vtree, vtree_target)
        if target.suffix.lower() == CIRCUIT_SUFFIX:
            write_circuit(model, target)
        elif distribution is not None:
            write_psdd(distribution, target)
    else:
        raise SettingsError(
            f"cannot convert {named} to {target}: expected one {CIRCUIT_SUFFIX}, or a {PSDD_SUFFIX} per class, and one "
            f"{MODEL_SUFFIX} file"
        )
    return model


def _posterior(
    sources: Sequence[Path],
    vtree: str | Path,
    scale: float,
    classes: tuple[int, ...] | tuple[str, ...] | None,
    priors: Sequence[float] | None,
) -> LogisticCircuit:
    """The model of one distribution per class."""
    n, shared = len(sources), read_vtree(vtree)
    names, shares = classes or tuple(range(n)), priors or [1 / n] * n
    if n < 2 or not n == len(names) == len(shares):
        found = f"found {n} {PSDD_SUFFIX} files, {len(names)} classes and {len(shares)} priors"
        raise SettingsError(f"expected two {PSDD_SUFFIX} files or more, a class and a prior for each, {found}")
    encoder = fit_encoder("divide", np.empty((0, shared.n_variables)), divisor=scale)
    try:
        return from_distributions([read_psdd(path, shared) for path in sources], shares, encoder, names)
    except CircuitError as error:
        raise CircuitError(f"{', '.join(map(str, sources))}: {error}") from error
