"""An exported model as MLflow's `pyfunc` loads it. Logged beside the model: it needs numpy and onnxruntime alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

INPUT = "features"


class OnnxModel:
    """Answers the outputs of the graph by name, or the one that the model configuration `output` names.

    A graph with an input per column takes a frame, whose dates become days since 1970-01-01, and whose numbers and
    truth values among categories the texts that lcml spells.
    """

    def __init__(self, path: str, output: str | None) -> None:
        import onnxruntime

        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [one.name for one in self.session.get_outputs()]
        if output not in (None, *names):
            raise ValueError(f"output {output!r}: expected one of {', '.join(names)}")
        self.names, self.output = names, output

    def predict(self, model_input: Any, params: object = None) -> dict[str, NDArray[Any]] | NDArray[Any]:
        """model_input: an array (n_examples, n_features), that array under the name INPUT, or a frame, whose columns
        MLflow has put in the order of the signature. Raises ValueError where a
        column is missing, and where the type of the input cannot hold it."""
        inputs = self.session.get_inputs()
        if [one.name for one in inputs] != [INPUT]:
            if not isinstance(model_input, dict) and not hasattr(model_input, "columns"):
                raise ValueError("the model reads columns by their names; give it a data frame")
            if missing := [one.name for one in inputs if one.name not in model_input]:
                raise ValueError(f"columns are missing: {', '.join(missing)}; give the frame all that were trained on")
            return self._run({one.name: _column(model_input[one.name], one.type) for one in inputs})
        given = np.asarray(model_input[INPUT] if isinstance(model_input, dict) else model_input)
        wanted = inputs[0].type
        dtype = np.dtype({"tensor(float)": "float32", "tensor(double)": "float64"}.get(wanted, "uint8"))
        features = given.astype(dtype)
        if dtype == np.uint8 and not np.array_equal(features, given):
            raise ValueError(
                "the model reads whole numbers from 0 to 255; export it with another input type for others"
            )
        return self._run({INPUT: features})

    def _run(self, feeds: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]] | NDArray[Any]:
        outputs = dict(zip(self.names, self.session.run(self.names, feeds), strict=True))
        return outputs if self.output is None else outputs[self.output]


def _column(series: Any, wanted: str) -> NDArray[Any]:
    """(n_examples, 1) of the type of the graph's input."""
    zone = getattr(getattr(series, "dtype", None), "tz", None)
    values = np.asarray(series) if zone is None else series.to_numpy("datetime64[us]")
    if wanted == "tensor(string)":
        return np.array([_spelled(value) for value in values.tolist()], object)[:, None]
    if values.dtype.kind in "mM":
        days = (values - values.dtype.type(0, "D")) / np.timedelta64(1, "D")
        values = np.where(np.isnat(values), np.nan, days)
    return values.astype("float32" if wanted == "tensor(float)" else "float64")[:, None]


def _spelled(value: Any) -> str:
    if value is None or type(value).__name__ == "NAType" or value != value:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> OnnxModel:
    return OnnxModel(path, (model_config or {}).get("output"))
