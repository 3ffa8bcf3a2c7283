"""An exported model as MLflow's `pyfunc` loads it. This file is logged beside the model: it needs numpy and onnxruntime
alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

INPUT = "features"


class OnnxModel:
    """Answers the outputs of the graph by name, or the one that the model configuration `output` names."""

    def __init__(self, path: str, output: str | None) -> None:
        import onnxruntime

        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [one.name for one in self.session.get_outputs()]
        if output not in (None, *names):
            raise ValueError(f"output {output!r}: expected one of {', '.join(names)}")
        self.names, self.output = names, output

    def predict(self, model_input: Any, params: object = None) -> dict[str, NDArray[Any]] | NDArray[Any]:
        """model_input: an array (n_examples, n_features), that array under the name INPUT, or a frame, whose columns
        MLflow has put in the order of the signature. Raises ValueError where the type of the input cannot hold it."""
        given = np.asarray(model_input[INPUT] if isinstance(model_input, dict) else model_input)
        wanted = self.session.get_inputs()[0].type
        dtype = np.dtype({"tensor(float)": "float32", "tensor(double)": "float64"}.get(wanted, "uint8"))
        features = given.astype(dtype)
        if dtype == np.uint8 and not np.array_equal(features, given):
            raise ValueError(
                "the model reads whole numbers from 0 to 255; export it with another input type for others"
            )
        outputs = dict(zip(self.names, self.session.run(self.names, {INPUT: features}), strict=True))
        return outputs if self.output is None else outputs[self.output]


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> OnnxModel:
    return OnnxModel(path, (model_config or {}).get("output"))
