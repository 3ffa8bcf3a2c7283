"""A model of a table of four columns, and rows of it whose probabilities are worked out by hand.

age     number, may be missing, knots 0, 10, 30      missing; age/10 cut off at 0 and 1; (age - 10)/20 so too;
        steps 5 and 20, at 20 a gap counts as above  at least 5; at least 20 or missing
income  number, knots 0, 4, step 2                   income/4 cut off; at least 2
city    Rome, Oslo, others share a variable          Rome; Oslo; other
size    s < m < l, may be missing                    missing; at least m; at least l
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from lcml.circuits import vtree as vtrees
from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.model import LogisticCircuit
from tests.export.models import model_on
from tests.worlds import grown

COLUMNS = (
    Column("age", "number", np.array([0.0, 10, 30]), (), True, False, np.array([5.0, 20]), np.array([False, True])),
    Column("income", "number", np.array([0.0, 4]), steps=np.array([2.0]), gap_above=np.array([False])),
    Column("city", "category", np.zeros(0), ("Rome", "Oslo"), shared=True),
    Column("size", "ordinal", np.arange(3.0), ("s", "m", "l"), gaps=True),
)
ROWS: dict[str, list[Any]] = {
    "age": [5.0, None, 20.0, -1.0, 31.0],
    "income": [1.0, -3.0, 9.0, 2.0, 4.0],
    "city": ["Rome", "Oslo", "Paris", None, "Rome"],
    "size": ["m", None, "l", "xl", "s"],
}
PROBABILITIES = np.array(
    [
        [0, 0.5, 0, 1, 0, 0.25, 0, 1, 0, 0, 0, 1, 0],
        [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0],
        [0, 1, 0.5, 1, 1, 1, 1, 0, 0, 1, 0, 1, 1],
        [0, 0, 0, 0, 0, 0.5, 1, 0, 0, 1, 1, 0, 0],
        [0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
    ]
)


def table_model(
    columns: tuple[Column, ...] = COLUMNS, classes: tuple[Any, ...] = ("no", "yes", "maybe")
) -> LogisticCircuit:
    """Standard normal weights on a circuit of a few splits over the variables of `columns`."""
    encoder = ColumnsEncoder(columns)
    return model_on(grown(vtrees.balanced(encoder.n_outputs), 1, rounds=2), classes, encoder=encoder)


def logits_by_hand(model: LogisticCircuit) -> NDArray[np.float64]:
    """Of ROWS, from the PROBABILITIES that their columns have."""
    n = PROBABILITIES.shape[1]
    return replace(model, encoder=ScaleEncoder(np.zeros(n), np.ones(n))).logits(PROBABILITIES, precision="float64")


def tensors(rows: dict[str, list[Any]], dtype: str = "float32") -> dict[str, NDArray[Any]]:
    """The inputs of a graph: "" and NaN for None."""
    found: dict[str, NDArray[Any]] = {}
    for name, values in rows.items():
        is_text = any(isinstance(value, str) for value in values)
        filled = [("" if is_text else np.nan) if value is None else value for value in values]
        found[name] = np.array(filled, object if is_text else dtype)[:, None]
    return found


def run_graph(path: Path, feeds: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Every output by name, by onnxruntime."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))
