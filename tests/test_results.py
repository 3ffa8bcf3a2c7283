"""The models of docs/results give the figures of their records, and of the tables, to anyone."""

import json
from pathlib import Path

import numpy as np
import pytest

from lcml.backend import get_backend
from lcml.data import load_examples
from lcml.formats import load_model
from lcml.runs.recipes import recipe_options

RESULTS = Path(__file__).parent.parent / "docs" / "results"
RECORDS = sorted(RESULTS.glob("*.json"))


def test_every_record_has_its_model_and_recipe() -> None:
    assert RECORDS
    assert {path.stem for path in RECORDS} == {path.stem for path in RESULTS.glob("*.lcml")}
    table = (RESULTS.parent / "benchmarks.md").read_text()
    for path in RECORDS:
        record, model = json.loads(path.read_text()), load_model(path.with_suffix(".lcml"))
        assert record["n_parameters"] == model.n_parameters
        settings = dict(model.provenance["settings"])
        assert recipe_options(record["recipe"]).items() <= settings.items()
        assert settings == record["settings"]
        assert f"| `{path.stem}` |" in table
        assert f"| {model.n_parameters:,} |" in table
        assert f"| {100 * record['test_accuracy']:.2f} |" in table


@pytest.mark.data
@pytest.mark.parametrize("path", RECORDS, ids=[path.stem for path in RECORDS])
def test_a_model_repeats_its_test_accuracy(path: Path, data_dir: Path) -> None:
    record, model = json.loads(path.read_text()), load_model(path.with_suffix(".lcml"))
    test = load_examples(record["data"], classes=model.classes, data_dir=data_dir)
    right = np.asarray(model.classes)[test.labels] == model.predict(test.features[:], get_backend("auto"))
    assert len(right) == 10_000
    assert right.mean() == pytest.approx(record["test_accuracy"], abs=1e-4)  # float32 sums differ by machine
