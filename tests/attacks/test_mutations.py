"""Files of every format, damaged at random: whatever a command makes of one, it ends in no traceback."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lcml_serving.errors import RequestError
from lcml_serving.mlflow_protocol import parse_invocation
from lcml_serving.oip import parse_infer
from lcml_serving.signature import Signature, TensorSpec
from tests.attacks.attack import FULL, faults
from tests.attacks.damage import mutated
from tests.attacks.formats import FORMATS

N_MUTATIONS = 10_000 if FULL else 20
MAX_ROWS = 1000
INPUT = TensorSpec("features", "FP32", np.dtype("<f4"), (-1, 4))
MODEL = Signature("iris", "1", INPUT, (TensorSpec("label", "INT64", np.dtype("<i8"), (-1,)),), tuple("abcd"))
ROWS = [[1.5, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
TENSOR = {"name": "features", "datatype": "FP32", "shape": [2, 4]}


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


def _infer(body: bytes) -> object:
    return parse_infer(body, len(body), MODEL, MAX_ROWS)


def _infer_binary(body: bytes) -> object:
    """The tensor stands behind the last bracket of the JSON."""
    return parse_infer(body, body.rfind(b"}") + 1, MODEL, MAX_ROWS)


def _invoke(body: bytes) -> object:
    return parse_invocation(body, "application/json", MODEL, MAX_ROWS)


def _invoke_csv(body: bytes) -> object:
    return parse_invocation(body, "text/csv; charset=utf-8", MODEL, MAX_ROWS)


BODIES: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "infer": (
        _infer,
        json.dumps({"id": "1", "inputs": [{**TENSOR, "data": ROWS}], "outputs": [{"name": "label"}]}).encode(),
    ),
    "infer binary": (
        _infer_binary,
        json.dumps({"inputs": [{**TENSOR, "parameters": {"binary_data_size": 32}}]}).encode()
        + np.ones((2, 4), "<f4").tobytes(),
    ),
    "split": (_invoke, json.dumps({"dataframe_split": {"columns": [*"dcba"], "data": ROWS}}).encode()),
    "records": (
        _invoke,
        json.dumps({"dataframe_records": [dict(zip("abcd", row, strict=True)) for row in ROWS]}).encode(),
    ),
    "instances": (_invoke, json.dumps({"instances": [{"features": row} for row in ROWS]}).encode()),
    "csv": (_invoke_csv, b"a,b,c,d\n1.5,2,3,4\n5,6,7,8\n"),
}
"""Bodies of requests, and what reads them."""


@pytest.mark.parametrize("name", BODIES)
def test_a_damaged_body_is_refused_or_read(name: str) -> None:
    read, body = BODIES[name]
    read(body)
    n_refused = 0
    for number in range(N_MUTATIONS):
        chance = random.Random(f"{name} {number}")
        try:
            read(mutated(body, chance))
        except RequestError:
            n_refused += 1
    assert n_refused > N_MUTATIONS / 4
