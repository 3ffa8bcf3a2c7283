"""The model file `.lcml`: structure, weights, encoder, classes, link and provenance; see docs/file-formats.md."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.channels import stored_encoder
from lcml.circuit import Circuit
from lcml.errors import CircuitError, FormatError, LcmlError
from lcml.formats.container import Arrays, read_container, write_container
from lcml.model import LogisticCircuit
from lcml.vtree import Vtree

MODEL_KIND = "lcml model"
MODEL_VERSION = 1

_VTREE_ARRAYS = ("left", "right", "variable")
_CIRCUIT_ARRAYS = ("or_vtree", "or_start", "elem_prime", "elem_sub")
_WEIGHT_ARRAYS = ("element_weights", "literal_weights", "bias")
_OPTIONAL = "weights/literal_weights"
_LINKS = ("sigmoid", "softmax")


def save_model(model: LogisticCircuit, path: str | Path) -> None:
    """Write `model` to `path`, whole or not at all; equal models give equal bytes.

    Raises FormatError where the provenance is not JSON, OutputError where the file cannot be written.
    """
    write_container(path, MODEL_KIND, MODEL_VERSION, *model_parts(model))


def load_model(path: str | Path) -> LogisticCircuit:
    """The model that `save_model` wrote, exact to the bit and checked in full.

    Raises FormatError for a file that is unreadable, foreign, newer, truncated or damaged, or holds no valid model.
    """
    content, arrays = read_container(path, MODEL_KIND, MODEL_VERSION)
    try:
        return model_from_parts(content, arrays)
    except LcmlError as error:
        raise FormatError(f"holds no valid model: {error}", path) from error


def model_parts(model: LogisticCircuit) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A model as a JSON object and named arrays, for this file and for others that hold a model."""
    circuit, encoder = model.circuit, model.encoder
    arrays: dict[str, NDArray[Any]] = {f"vtree/{name}": getattr(circuit.vtree, name) for name in _VTREE_ARRAYS}
    arrays |= {f"circuit/{name}": getattr(circuit, name) for name in _CIRCUIT_ARRAYS}
    arrays |= {f"weights/{name}": getattr(model, name) for name in _WEIGHT_ARRAYS if getattr(model, name) is not None}
    arrays |= {f"encoder/{name}": array for name, array in encoder.arrays().items()}
    content = {
        "classes": [str(c) if isinstance(c, str) else int(c) for c in model.classes],
        "link": model.link,
        "encoder": encoder.kind,
        "provenance": dict(model.provenance),
    }
    return content, arrays


def model_from_parts(content: Mapping[str, Any], arrays: Arrays) -> LogisticCircuit:
    """The model whose `model_parts` these are. Raises FormatError, CircuitError or DataError where they are none."""
    wanted = {f"vtree/{name}" for name in _VTREE_ARRAYS} | {f"circuit/{name}" for name in _CIRCUIT_ARRAYS}
    wanted |= {f"weights/{name}" for name in _WEIGHT_ARRAYS}
    missing = sorted(wanted - {_OPTIONAL} - set(arrays))
    unknown = sorted(name for name in set(arrays) - wanted if not name.startswith("encoder/"))
    if missing or unknown:
        raise FormatError(f"array {missing[0]!r} is missing" if missing else f"array {unknown[0]!r} is unknown")
    for name in sorted(wanted & set(arrays)):
        expected, found = _expected_type(name), (arrays[name].dtype, arrays[name].ndim)
        if found != expected:
            raise FormatError(f"array {name!r}: expected type and dimensions {expected}, found {found}")
    vtree = Vtree(*(arrays[f"vtree/{name}"] for name in _VTREE_ARRAYS))
    circuit = Circuit(vtree, *(arrays[f"circuit/{name}"] for name in _CIRCUIT_ARRAYS))
    weights = {name: arrays.get(f"weights/{name}") for name in _WEIGHT_ARRAYS}
    encoder_arrays = {name.removeprefix("encoder/"): a for name, a in arrays.items() if name.startswith("encoder/")}
    if content.get("link") not in _LINKS or not isinstance(content.get("provenance"), dict):
        raise FormatError(f"expected a link of {_LINKS} and a provenance, found {content.get('link')!r}")
    return LogisticCircuit(
        circuit=circuit,
        encoder=stored_encoder(str(content.get("encoder")), encoder_arrays),
        classes=_classes(content.get("classes")),
        link=content["link"],
        provenance=content["provenance"],
        **weights,  # type: ignore[arg-type]
    )


def _expected_type(name: str) -> tuple[np.dtype[Any], int]:
    if name.startswith("weights/"):
        return np.dtype(np.float64), 1 if name == "weights/bias" else 2
    return np.dtype(np.int32), 1


def _classes(values: Any) -> tuple[int, ...] | tuple[str, ...]:
    of_one_type = isinstance(values, list) and any(all(type(v) is kind for v in values) for kind in (int, str))
    if not of_one_type or not values or len(set(values)) < len(values):
        raise CircuitError(f"expected distinct classes, all integers or all text, found {values!r}")
    return tuple(values)
