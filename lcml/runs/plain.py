"""A fitted classifier's attributes as plain values, and back: for readers that trust no types but those they know."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from lcml.formats.model_file import model_from_parts, model_parts
from lcml.inputs.table import RawColumn, Table
from lcml.runs.records import RoundRecord

_TEXT = np.dtypes.StringDType()


def plain(state: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes with dicts, lists and arrays of numbers for the model, its history and a sample of a table."""
    content, arrays = model_parts(state["model_"])
    told = {name: array.tolist() if array.dtype == _TEXT else array for name, array in arrays.items()}
    history = [asdict(record) for record in state["history_"]]
    sample = state.get("_sample")
    if isinstance(sample, Table):
        sample = {"columns": [asdict(column) for column in sample.columns], "values": np.asarray(sample.values)}
    return {**state, "model_": (content, told), "history_": history} | ({} if sample is None else {"_sample": sample})


def rebuilt(state: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that `plain` was given. Raises FormatError, CircuitError or DataError where there are none."""
    content, told = state["model_"]
    arrays = {name: np.array(values, _TEXT) if isinstance(values, list) else values for name, values in told.items()}
    history = [RoundRecord(**values) for values in state["history_"]]
    sample = state.get("_sample")
    if isinstance(sample, dict):
        sample = Table(tuple(RawColumn(**column) for column in sample["columns"]), sample["values"])
    model = model_from_parts(content, arrays)
    return {**state, "model_": model, "history_": history} | ({} if sample is None else {"_sample": sample})
