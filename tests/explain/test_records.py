import sys
from types import SimpleNamespace

import numpy as np
import pytest

from lcml.errors import DataError, MissingDependencyError
from lcml.explain.contributions import explain
from tests.explain.test_contributions import parts_model

ONE = np.random.default_rng(2).random(12)


def test_against_another_class_it_is_the_difference_of_the_logits() -> None:
    model = parts_model()
    logits = dict(zip(model.classes, model.logits(ONE[None], precision="float64")[0].tolist(), strict=True))
    label = str(model.predict(ONE[None])[0])
    other = next(str(name) for name in model.classes if name != label)
    found = explain(model, ONE, top=4, against=other)
    assert found.label == label
    assert found.logit == pytest.approx(logits[label] - logits[other])
    shown = sum(part.contribution for part in found.contributions)
    assert found.baseline + shown + found.rest == pytest.approx(found.logit)
    with pytest.raises(DataError, match=f"'{label}' is what is predicted; hold the example against another of p, q, r"):
        explain(model, ONE, against=label)
    with pytest.raises(DataError, match="'s' is no class"):
        explain(model, ONE, against="s")


def test_as_a_frame() -> None:
    found = explain(parts_model(), ONE, top=3)
    frame = found.to_frame()
    assert frame["condition"].tolist() == [*(part.condition for part in found.contributions), "all else"]
    assert found.baseline + frame["contribution"].sum() == pytest.approx(found.logit)


def test_as_shap_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """shap's own additivity: base value and values sum to what the model says."""
    found = explain(parts_model(), ONE, top=3)
    monkeypatch.setitem(sys.modules, "shap", SimpleNamespace(Explanation=SimpleNamespace))
    as_shap = found.to_shap()
    assert as_shap.base_values + as_shap.values.sum() == pytest.approx(found.logit)
    assert len(as_shap.feature_names) == len(as_shap.data) == len(as_shap.values) == 4
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(MissingDependencyError, match="pip install shap"):
        found.to_shap()
