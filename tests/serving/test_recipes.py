"""The recipes of docs/scoring.md give what a scorer gives, where their packages are installed."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lcml_export import export_model
from lcml_serving import Scorer
from tests.export.tables import ROWS, table_model

PAGE = Path(__file__).parents[2] / "docs" / "scoring.md"
RECIPES = dict(re.findall(r'^```python title="(\w+)"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("package", RECIPES)
def test_a_recipe(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(package, reason=f"pip install {package}")
    export_model(table_model(), tmp_path / "model.onnx")
    rows = pd.DataFrame({name: values * 3 for name, values in ROWS.items()})
    rows.to_parquet(tmp_path / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    expected, names = Scorer("model.onnx")(rows), dict[str, Any]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages, about themselves
        exec(RECIPES[package], names)
    for scored in [names[name] for name in ("scored", "lazy") if name in names]:
        frame = scored if isinstance(scored, pd.DataFrame) else scored.to_pandas()
        if package == "duckdb":
            np.testing.assert_array_equal(frame["p"], expected["probability_maybe"])
        else:
            assert list(frame) == list(expected)
            assert frame["label"].tolist() == expected["label"].tolist()
            np.testing.assert_array_equal(frame[list(expected)[1:]], expected[list(expected)[1:]])
