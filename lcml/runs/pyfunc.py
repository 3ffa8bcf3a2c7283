"""A model file as MLflow's `pyfunc` loads it: `mlflow.pyfunc.load_model` and `mlflow models serve` call this module."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.errors import DataError
from lcml.explain.names import known_names
from lcml.formats import load_model
from lcml.model.head import predicted_codes
from lcml.model.model import LogisticCircuit


class PyfuncModel:
    """Answers `label` (n_examples,) and `probabilities` (n_examples, n_classes) for raw features."""

    def __init__(self, model: LogisticCircuit) -> None:
        self.model = model

    def predict(self, model_input: Any, params: object = None) -> dict[str, NDArray[Any]]:
        """model_input: an array (n_examples, n_features), or a frame, whose columns are found by their names.

        Raises DataError for a frame that lacks a column, and what `LogisticCircuit.logits` raises.
        """
        x = np.asarray(self._in_order(model_input), dtype=np.float64)
        logits = self.model.logits(x.reshape(len(x), -1))
        labels = np.asarray(self.model.classes)[predicted_codes(logits)]
        return {"label": labels, "probabilities": self.model.head.probabilities(logits)}

    def _in_order(self, model_input: Any) -> Any:
        columns, names = list(getattr(model_input, "columns", [])), known_names(self.model)
        if not names or not any(isinstance(column, str) for column in columns):
            return model_input
        missing = [name for name in names if name not in columns]
        if missing:
            raise DataError(f"the table has no column {missing[0]!r}; expected the {len(names)} columns of training")
        return model_input[list(names)]


def _load_pyfunc(path: str) -> PyfuncModel:
    return PyfuncModel(load_model(path))
