"""Drift: shares and their indices by hand, through the service, and the rules and pictures that use them."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from prometheus_client import parser

from lcml_export import export_model
from lcml_serving.drift import Drift, drift_of, psi
from lcml_serving.metrics import Metrics
from lcml_serving.signature import Column, Signature, TensorSpec
from tests.export.tables import ROWS, table_model
from tests.runs.test_reference import EXPECTED
from tests.serving.running import Running

MONITORING = Path(__file__).parents[2] / "docs" / "monitoring"
CITY = Column("city", "category", gaps=False, categories=("Rome", "Oslo"), n_categories=2)
AGE = Column("age", "number", gaps=True, range=(0.0, 30.0))
SPECS = TensorSpec("age", "FP32", np.dtype("<f4"), (-1, 1)), TensorSpec("city", "BYTES", np.dtype("O"), (-1, 1))
SIGNATURE = Signature("table", "1", SPECS, (), ("age", "city"), (AGE, CITY))
REFERENCE: dict[str, Any] = {
    "classes": {"no": 0.5, "yes": 0.5},
    "columns": [
        {"name": "age", "edges": [10.0], "shares": [0.5, 0.25, 0.25]},
        {"name": "city", "categories": ["Rome"], "shares": [0.5, 0.5, 0.0]},
    ],
}


def batch(ages: list[float], cities: list[str], labels: list[str]) -> tuple[tuple[Any, ...], Any]:
    return (np.array(ages, np.float32)[:, None], np.array(cities, object)[:, None]), np.array(labels, object)


def test_the_index() -> None:
    assert psi(np.array([0.5, 0.5]), np.array([0.25, 0.75])) == pytest.approx(0.25 * math.log(2) + 0.25 * math.log(1.5))
    assert psi(np.array([1.0, 0.0]), np.array([1.0, 0.0])) == 0
    never = psi(np.array([1.0, 0.0]), np.array([0.9, 0.1]))  # at least 1e-4 of what training never had
    assert never == pytest.approx(-0.1 * math.log(0.9) + 0.0999 * math.log(1000))


def test_shares_of_the_latest_rows() -> None:
    drift = Drift(REFERENCE, SIGNATURE, window=4)
    assert drift.shares() is None
    drift.add(*batch([9.0, 10.0, math.nan, -5.0], ["Rome", "Oslo", "Bonn", ""], ["no", "no", "no", "yes"]))
    shares = drift.shares()
    assert shares is not None
    assert (shares.n_rows, shares.classes) == (4, {"no": 0.75, "yes": 0.25})
    assert shares.psi["age"] == pytest.approx(0)
    assert (shares.missing, shares.unknown) == ({"age": 0.25, "city": 0.25}, {"city": 0.25})
    assert shares.class_psi == pytest.approx(0.25 * math.log(3))
    drift.add(*batch([50.0] * 4, ["Rome"] * 4, ["yes"] * 4))
    after = drift.shares()
    assert after is not None
    assert after.n_rows == 4  # the window before was full when this one was
    assert after.psi["age"] == pytest.approx(psi(np.array([0.5, 0.25, 0.25]), np.array([0, 1, 0])))
    assert (after.missing["city"], after.unknown, after.classes) == (0, {"city": 0}, {"no": 0, "yes": 1})
    drift.add(*batch([50.0], ["Oslo"], ["no"]))
    last = drift.shares()
    assert last is not None
    assert (last.n_rows, last.classes) == (5, {"no": 0.2, "yes": 0.8})


def test_requests_of_the_edges_themselves_are_no_drift() -> None:
    told = {**REFERENCE, "columns": [{"name": "age", "edges": [0.7, 0.8], "shares": [0.0, 0.5, 0.5, 0.0]}]}
    drift = Drift(told, SIGNATURE, window=2)
    drift.add(*batch([0.7, 0.8], ["Rome"] * 2, ["no", "yes"]))
    shares = drift.shares()
    assert shares is not None
    assert shares.psi["age"] == pytest.approx(0, abs=1e-9)


def test_many_rows_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    drift = Drift(REFERENCE, SIGNATURE, window=10_000)
    for _ in range(1030):
        drift.add(*batch([1.0], ["Rome"], ["no"]))
    assert len(drift._waiting) == 1030 - 4 * 256
    shares = drift.shares()
    assert shares is not None
    assert (shares.n_rows, shares.classes["no"]) == (1030, 1)


def test_categories_that_are_not_all_told_cannot_be_unknown() -> None:
    signature = replace(SIGNATURE, columns=(AGE, replace(CITY, n_categories=3)))
    drift = Drift(REFERENCE, signature, window=4)
    drift.add(*batch([1.0], ["Bonn"], ["no"]))
    shares = drift.shares()
    assert shares is not None
    assert shares.unknown == {}


@pytest.mark.parametrize(
    "told",
    [
        "[",
        "[]",
        "{}",
        '{"classes": 3}',
        '{"classes": {"no": "x"}}',
        '{"classes": {}, "columns": [{"name": "size"}]}',
        '{"classes": {}, "columns": [{"name": "age", "edges": [1], "shares": [1]}]}',
        '{"classes": {}, "columns": 3}',
    ],
)
def test_a_damaged_reference_is_told(told: str) -> None:
    with pytest.raises(ValueError, match=r"metadata lcml\.reference are damaged: .*; export the model again"):
        drift_of({"lcml.reference": told}, SIGNATURE, 10)


def test_no_reference_or_no_window_counts_nothing() -> None:
    assert drift_of({}, SIGNATURE, 10) is None
    assert drift_of({"lcml.reference": json.dumps(REFERENCE)}, SIGNATURE, 0) is None


def test_the_service_tells(launch: Callable[..., Running], tmp_path: Path) -> None:
    told = {"reference": {"classes": {"no": 0.2, "yes": 0.4, "maybe": 0.4}, "columns": EXPECTED}}
    export_model(replace(table_model(), provenance=told), tmp_path / "table.onnx", self_check=False)
    running = launch(tmp_path / "table.onnx")
    for form in ({"inputs": ROWS}, {"inputs": {**ROWS, "city": ["Bonn"] * 5, "age": [None] * 5}}):
        assert running.post("/invocations", form, {"Content-Type": "application/json"}).status == 200
    found = {
        (sample.name, sample.labels.get("column", sample.labels.get("class"))): sample.value
        for family in parser.text_string_to_metric_families(running.get("/metrics").body.decode())
        for sample in family.samples
    }
    assert found["lcml_drift_rows", None] == 10
    assert found["lcml_column_missing_share", "age"] == pytest.approx(0.6)
    assert found["lcml_column_unknown_share", "city"] == pytest.approx(0.6)
    assert found["lcml_column_missing_share", "city"] == pytest.approx(0.1)
    ages = psi(np.array([0.2] * 5), np.array([0.1, 0.1, 0.1, 0.1, 0.6]))
    assert found["lcml_column_psi", "age"] == pytest.approx(ages)
    assert found["lcml_column_psi", "income"] == pytest.approx(0)
    assert sum(value for (name, _), value in found.items() if name == "lcml_class_share") == pytest.approx(1)


def test_rules_and_pictures_ask_for_what_there_is() -> None:
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"][0]["rules"]
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    asked = [rule["expr"] for rule in rules]
    asked += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", Metrics().render().decode(), re.MULTILINE))
    there = set(kinds) | {
        f"{name}_{part}" for name, kind in kinds.items() if kind == "histogram" for part in ("bucket", "sum", "count")
    }
    assert {name for text in asked for name in re.findall(r"\blcml_\w+", text)} <= there
    assert len(asked) == 13
