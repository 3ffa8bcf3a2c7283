"""Logistic circuits as real, packaged, deployable models.

    LogisticCircuitClassifier    learns from arrays, as a classifier of scikit-learn
    load_model, save_model       a model file, .lcml
    LogisticCircuit              a model: predict, predict_proba, logits
    LcmlError                    what is wrong, in a sentence; of its kinds SettingsError, DataError and FormatError

    lcml.explain.contributions.explain    why an example got its label
    lcml_export.export_model              a model as ONNX

All but the last two are names of this package, imported when they are first asked for: `import lcml` alone costs next
to nothing. `lcml --help` lists the commands.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lcml.errors import (
        CircuitError,
        ContradictionError,
        DataError,
        FormatError,
        LcmlError,
        MissingDependencyError,
        OutputError,
        SettingsError,
        TrackingError,
    )
    from lcml.estimator import LogisticCircuitClassifier
    from lcml.formats import load_model, save_model
    from lcml.model.model import LogisticCircuit

__version__ = "0.1.0"

__all__ = [
    "CircuitError",
    "ContradictionError",
    "DataError",
    "FormatError",
    "LcmlError",
    "LogisticCircuit",
    "LogisticCircuitClassifier",
    "MissingDependencyError",
    "OutputError",
    "SettingsError",
    "TrackingError",
    "__version__",
    "load_model",
    "save_model",
]

_MODULE_OF = {
    "LogisticCircuit": "lcml.model.model",
    "LogisticCircuitClassifier": "lcml.estimator",
    "load_model": "lcml.formats",
    "save_model": "lcml.formats",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lcml' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF.get(name, "lcml.errors")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
