"""Files of every format, damaged at random: whatever a command makes of one, it ends in no traceback."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcml_serving.errors import RequestError
from lcml_serving.mlflow_protocol import parse_invocation
from lcml_serving.oip import parse_infer
from lcml_serving.signature import Column, Signature, TensorSpec
from tests.attacks.attack import FULL, faults
from tests.attacks.damage import mutated
from tests.attacks.formats import FORMATS

N_MUTATIONS = 10_000 if FULL else 20
MAX_ROWS = 1000
INPUT = TensorSpec("features", "FP32", np.dtype("<f4"), (-1, 4))
LABEL = TensorSpec("label", "INT64", np.dtype("<i8"), (-1,))
MATRIX = Signature("iris", "1", (INPUT,), (LABEL,), tuple("abcd"))
ROWS = [[1.5, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
TENSOR = {"name": "features", "datatype": "FP32", "shape": [2, 4]}

COLUMNS = (
    Column("age", "number", gaps=True, range=(0.0, 99.0)),
    Column("contract", "category", gaps=False, categories=("monthly", "3"), n_categories=2),
    Column("since", "date", gaps=False, range=("2020-01-01", "2024-12-31")),
)
KINDS = {"number": ("FP64", "<f8"), "category": ("BYTES", "O"), "date": ("FP64", "<f8")}
INPUTS = tuple(TensorSpec(c.name, KINDS[c.kind][0], np.dtype(KINDS[c.kind][1]), (-1, 1)) for c in COLUMNS)
TABLE = Signature("table", "1", INPUTS, (LABEL,), ("age", "contract", "since"), COLUMNS)
RECORDS: list[dict[str, Any]] = [
    {"age": 31.5, "contract": "monthly", "since": "2024-05-31"},
    {"age": None, "contract": 3, "since": 19000},
]
BY_COLUMN = {name: [[record[name]] for record in RECORDS[:1]] for name in RECORDS[0]}
TYPED = (("age", "FP64"), ("contract", "BYTES"), ("since", "BYTES"))


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_refused_or_read(name: str, folder: Path) -> None:
    form = FORMATS[name]
    file = folder / form.file
    content, found = file.read_bytes(), []
    for number in range(N_MUTATIONS):
        chance = random.Random(f"{name} {number}")
        file.write_bytes(mutated(content, chance))
        command = chance.choice(form.commands)
        if wrong := faults(form.arguments(command), may_succeed=True):
            found.append("\n".join((f"mutation {number}: {command}", *wrong)))
    assert not found, "\n".join(found)


def _read(model: Signature, kind: str, body: bytes) -> object:
    """Read a request, of the Open Inference Protocol or of that content type; binary tensors stand behind the JSON."""
    if kind.startswith("infer"):
        return parse_infer(body, body.rfind(b"}") + 1 if kind == "infer binary" else len(body), model, MAX_ROWS)
    return parse_invocation(body, kind, model, MAX_ROWS)


JSON, CSV = "application/json", "text/csv; charset=utf-8"
BODIES: dict[str, tuple[Signature, str, Any]] = {
    "infer": (MATRIX, "infer", {"id": "1", "inputs": [{**TENSOR, "data": ROWS}], "outputs": [{"name": "label"}]}),
    "infer binary": (MATRIX, "infer binary", {"inputs": [{**TENSOR, "parameters": {"binary_data_size": 32}}]}),
    "split": (MATRIX, JSON, {"dataframe_split": {"columns": [*"dcba"], "data": ROWS}}),
    "records": (MATRIX, JSON, {"dataframe_records": [dict(zip("abcd", row, strict=True)) for row in ROWS]}),
    "instances": (MATRIX, JSON, {"instances": [{"features": row} for row in ROWS]}),
    "csv": (MATRIX, CSV, "a,b,c,d\n1.5,2,3,4\n5,6,7,8\n"),
    "table infer": (
        TABLE,
        "infer",
        {"inputs": [{"name": n, "datatype": t, "shape": [1, 1], "data": BY_COLUMN[n]} for n, t in TYPED]},
    ),
    "table split": (
        TABLE,
        JSON,
        {"dataframe_split": {"columns": [*RECORDS[0]], "data": [[*r.values()] for r in RECORDS]}},
    ),
    "table records": (TABLE, JSON, {"dataframe_records": RECORDS}),
    "table inputs": (TABLE, JSON, {"inputs": {name: [r[name] for r in RECORDS] for name in RECORDS[0]}}),
    "table csv": (TABLE, CSV, "age,contract,since\n31.5,monthly,2024-05-31\n,3,19000\n"),
}
"""Bodies of requests: the model that is asked, how, and what is sent as text or JSON."""


@pytest.mark.parametrize("name", BODIES)
def test_a_damaged_body_is_refused_or_read(name: str) -> None:
    model, kind, sent = BODIES[name]
    body = sent.encode() if isinstance(sent, str) else json.dumps(sent).encode()
    body += np.ones((2, 4), "<f4").tobytes() if kind == "infer binary" else b""
    _read(model, kind, body)
    n_refused = 0
    for number in range(N_MUTATIONS):
        try:
            _read(model, kind, mutated(body, random.Random(f"{name} {number}")))
        except RequestError:
            n_refused += 1
    assert n_refused > N_MUTATIONS / 4
