"""The model file `.lcml`: structure, weights, encoder, classes, link and provenance; see docs/file-formats.md."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from lcml.circuits.circuit import Circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import View, view_from_dict
from lcml.circuits.vtree import Vtree
from lcml.errors import CircuitError, FormatError, LcmlError
from lcml.formats.container import Arrays, is_text, read_container, write_container
from lcml.inputs.registry import stored_encoder
from lcml.model.distribution import ProbabilisticCircuit
from lcml.model.head import HEADS, THRESHOLD
from lcml.model.missing import Missing, MissingPolicy
from lcml.model.model import LogisticCircuit

MODEL_KIND = "lcml model"
MODEL_VERSION = 6
"""That of files where cells of a window overlap; those where not all features carry weights are written as version 5,
those with a policy for missing inputs or a threshold other than 1/2 as version 4, those whose encoder holds text as
version 3 and all others as version 2, which older programs read."""

_OF_VTREE = "vtree/left", "vtree/right", "vtree/variable"
_OF_CIRCUIT = "circuit/or_vtree", "circuit/or_start", "circuit/elem_prime", "circuit/elem_sub"
_TYPES: dict[str, tuple[type, int]] = {
    **dict.fromkeys((*_OF_VTREE, *_OF_CIRCUIT), (np.int32, 1)),
    "weighted": (np.bool_, 1),
}
"""Type and dimensions of the arrays of a part; their names begin with the part's number."""

_LINKS = tuple(HEADS)


def save_model(model: LogisticCircuit, path: str | Path) -> None:
    """Write `model` to `path`, whole or not at all; equal models give equal bytes.

    Raises FormatError where the provenance is not JSON, OutputError where the file cannot be written.
    """
    content, arrays = model_parts(model)
    write_container(path, MODEL_KIND, _version(content, arrays), content, arrays)


def load_model(path: str | Path) -> LogisticCircuit:
    """The model that `save_model` wrote, exact to the bit and checked in full.

    Raises FormatError for a file that is unreadable, foreign, newer, truncated or damaged, or holds no valid model.
    """
    content, arrays = read_container(path, MODEL_KIND, MODEL_VERSION)
    try:
        return model_from_parts(*_upgraded(content, arrays))
    except LcmlError as error:
        raise FormatError(f"holds no valid model: {error}", path) from error


def _version(content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:
    if any("overlap" in view for view in content["views"]):
        return MODEL_VERSION
    if "carries" in arrays:
        return 5
    if not {"missing", "threshold"}.isdisjoint(content):
        return 4
    return 3 if any(map(is_text, arrays.values())) else 2


def model_parts(model: LogisticCircuit) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A model as a JSON object and named arrays, for this file and for others that hold a model."""
    arrays: dict[str, NDArray[Any]] = {"weights": model.weights, "bias": model.bias}
    if model.carries is not None:
        arrays |= {"carries": model.carries, "weights": model.weights[:, model.carries]}
    for number, part in enumerate(model.parts):
        for name in _TYPES:
            owner = {"vtree": part.circuit.vtree, "circuit": part.circuit}.get(name.split("/")[0], part)
            arrays[f"{number}/{name}"] = getattr(owner, name.split("/")[-1])
    arrays |= {f"encoder/{name}": array for name, array in model.encoder.state().items()}
    content: dict[str, Any] = {
        "classes": [str(c) if isinstance(c, str) else int(c) for c in model.classes],
        "link": model.link,
        "encoder": model.encoder.kind,
        "views": [part.view.as_dict() for part in model.parts],
        "provenance": dict(model.provenance),
    }
    if model.missing is not None:
        content["missing"] = model.missing.policy
        arrays["missing/means"] = model.missing.means
        if model.missing.distribution is not None:
            arrays["missing/log_parameters"] = model.missing.distribution.log_parameters
    if model.threshold != THRESHOLD:
        content["threshold"] = model.threshold
    return content, arrays


def model_from_parts(content: Mapping[str, Any], arrays: Arrays) -> LogisticCircuit:
    """The model whose `model_parts` these are. Raises FormatError, CircuitError or DataError where they are none."""
    views = content.get("views")
    if not isinstance(views, list) or not views:
        raise FormatError(f"expected a list of views, found {views!r}")
    wanted: dict[str, tuple[type, int]] = {"weights": (np.float64, 2), "bias": (np.float64, 1)}
    wanted |= {f"{number}/{name}": kind for number in range(len(views)) for name, kind in _TYPES.items()}
    if "carries" in arrays:
        wanted["carries"] = np.bool_, 1
    policy = content.get("missing", "refuse")
    if policy not in get_args(MissingPolicy):
        raise FormatError(f"expected a policy for missing inputs, found {policy!r}")
    of_policy = {"prior": ["means"], "expected": ["means", "log_parameters"]}.get(policy, [])
    wanted |= {f"missing/{name}": (np.float64, 1) for name in of_policy}
    missing = sorted(set(wanted) - set(arrays))
    unknown = sorted(name for name in set(arrays) - set(wanted) if not name.startswith("encoder/"))
    if missing or unknown:
        raise FormatError(f"array {missing[0]!r} is missing" if missing else f"array {unknown[0]!r} is unknown")
    for name, (kind, n_dimensions) in wanted.items():
        expected, found = (np.dtype(kind), n_dimensions), (arrays[name].dtype, arrays[name].ndim)
        if found != expected:
            raise FormatError(f"array {name!r}: expected type and dimensions {expected}, found {found}")
    if content.get("link") not in _LINKS or not isinstance(content.get("provenance"), dict):
        raise FormatError(f"expected a link of {_LINKS} and a provenance, found {content.get('link')!r}")
    encoder_arrays = {name.removeprefix("encoder/"): a for name, a in arrays.items() if name.startswith("encoder/")}
    encoder = stored_encoder(str(content.get("encoder")), encoder_arrays)
    parts = tuple(_part(view_from_dict(view), f"{number}/", arrays) for number, view in enumerate(views))
    classes, weights, link = _classes(content.get("classes")), _weights(arrays), content["link"]
    log_parameters, fill = arrays.get("missing/log_parameters"), None
    if of_policy:
        of = None if log_parameters is None else ProbabilisticCircuit(parts[0].circuit, log_parameters)
        fill = Missing(arrays["missing/means"], of)
    told = content["provenance"], content.get("threshold", THRESHOLD), fill, arrays.get("carries")
    return LogisticCircuit(encoder, parts, classes, weights, arrays["bias"], link, *told)


def _weights(arrays: Arrays) -> NDArray[np.float64]:
    """(n_sets, n_features), 0 for features that carry no weights."""
    weights, carries = arrays["weights"], arrays.get("carries")
    if carries is None:
        return weights
    if weights.shape[1] != np.count_nonzero(carries):
        raise FormatError(f"{np.count_nonzero(carries)} features carry weights, weights has {weights.shape[1]}")
    full = np.zeros((len(weights), len(carries)))
    full[:, carries] = weights
    return full


def _upgraded(content: Mapping[str, Any], arrays: Arrays) -> tuple[Mapping[str, Any], Arrays]:
    """What version 1 held, one circuit over the whole example, as this version holds it; all else as it is."""
    elements, literals = (arrays.get(f"weights/{name}_weights") for name in ("element", "literal"))
    if elements is None:
        return content, arrays
    given = [weights for weights in (literals, elements) if weights is not None]
    if any(w.dtype != np.float64 or w.ndim != 2 for w in given) or len({len(w) for w in given}) > 1:
        raise FormatError(f"expected weights per set, float64, found {[(w.dtype, w.shape) for w in given]}")
    n_variables = (np.size(arrays.get("vtree/variable", ())) + 1) // 2
    with_literals = np.full(2 * n_variables, literals is not None)
    kept = {f"0/{name}" if name in _TYPES else name: array for name, array in arrays.items()}
    for name in ("weights/element_weights", "weights/literal_weights"):
        kept.pop(name, None)
    kept["weights"] = np.concatenate(given, axis=1)
    kept["0/weighted"] = np.concatenate([with_literals, np.ones(elements.shape[1], dtype=bool)])
    if "weights/bias" in kept:
        kept["bias"] = kept.pop("weights/bias")
    return {**content, "views": [{"kind": "identity", "n_inputs": n_variables}]}, kept


def _part(view: View, prefix: str, arrays: Arrays) -> Part:
    of_vtree, of_circuit = ([arrays[prefix + name] for name in names] for names in (_OF_VTREE, _OF_CIRCUIT))
    return Part(view, Circuit(Vtree(*of_vtree), *of_circuit), arrays[f"{prefix}weighted"])


def _classes(values: Any) -> tuple[int, ...] | tuple[str, ...]:
    of_one_type = isinstance(values, list) and any(all(type(v) is kind for v in values) for kind in (int, str))
    if not of_one_type or not values or len(set(values)) < len(values):
        raise CircuitError(f"expected distinct classes, all integers or all text, found {values!r}")
    return tuple(values)
