"""Model files of older versions stay readable."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcml.circuits.views import IdentityView
from lcml.errors import FormatError
from lcml.formats import load_model, save_model
from lcml.formats.container import write_container

CONTENT = {"classes": ["no", "yes"], "encoder": "scale", "link": "sigmoid", "provenance": {"seed": 7}}


def arrays() -> dict[str, Any]:
    """Version 1, over the pair (a, b): the elements a b, a not b, not a b, not a not b, and the four literals."""

    def structure(*values: int) -> Any:
        return np.array(values, np.int32)

    return {
        "vtree/left": structure(-1, -1, 0),
        "vtree/right": structure(-1, -1, 1),
        "vtree/variable": structure(0, 1, -1),
        "circuit/or_vtree": structure(2),
        "circuit/or_start": structure(0, 4),
        "circuit/elem_prime": structure(0, 0, 2, 2),
        "circuit/elem_sub": structure(1, 3, 1, 3),
        "encoder/low": np.zeros(2),
        "encoder/high": np.full(2, 10.0),
        "weights/element_weights": np.array([[1.0, 2.0, 4.0, 8.0]]),
        "weights/literal_weights": np.array([[16.0, 32.0, 64.0, 128.0]]),
        "weights/bias": np.array([-0.5]),
    }


def written(path: Path, changes: dict[str, Any]) -> Path:
    """A file of version 1 with some arrays replaced, or dropped with None."""
    kept = {name: array for name, array in (arrays() | changes).items() if array is not None}
    write_container(path, "lcml model", 1, CONTENT, kept)
    return path


def test_version_1(tmp_path: Path) -> None:
    model = load_model(written(tmp_path / "old.lcml", {}))
    assert model.parts[0].view == IdentityView(2)
    assert model.element_weights.tolist() == [[1.0, 2.0, 4.0, 8.0]]
    assert model.flat_weights.tolist() == [[16.0, 32.0, 64.0, 128.0, 1.0, 2.0, 4.0, 8.0]]
    assert (model.classes, model.link, model.provenance) == (("no", "yes"), "sigmoid", {"seed": 7})
    # a and not b: literals a and not b, element a not b
    assert model.logits([[10.0, 0.0]]).tolist() == [[16.0 + 128.0 + 2.0 - 0.5]]
    save_model(model, tmp_path / "new.lcml")
    assert load_model(tmp_path / "new.lcml").weights.tolist() == model.weights.tolist()


def test_version_1_without_literal_weights(tmp_path: Path) -> None:
    model = load_model(written(tmp_path / "old.lcml", {"weights/literal_weights": None}))
    assert model.literal_weights is None
    assert model.weights.tolist() == [[1.0, 2.0, 4.0, 8.0]]
    assert model.n_parameters == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights/bias": None}, "array 'bias' is missing"),
        ({"weights/element_weights": None}, "expected a list of views"),
        ({"vtree/variable": None}, "array '0/vtree/variable' is missing"),
        ({"weights/more": np.zeros(1)}, "array 'weights/more' is unknown"),
        ({"weights/literal_weights": np.zeros((2, 4))}, "expected weights per set"),
        ({"weights/literal_weights": np.zeros((1, 4), np.float32)}, "expected weights per set"),
        ({"weights/element_weights": np.zeros(4)}, "expected weights per set"),
        ({"weights/element_weights": np.array(1.0)}, "expected weights per set"),
        ({"vtree/variable": np.array(3, np.int32)}, "vtree"),
        ({"weights/element_weights": np.zeros((1, 3))}, "expected 8 marks of what carries weights"),
        ({"circuit/elem_sub": np.array([1, 3, 1, 9], np.int32)}, "element 3 of or gate 0"),
    ],
)
def test_a_damaged_file_of_version_1_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=f"holds no valid model: .*{message}"):
        load_model(written(tmp_path / "old.lcml", changes))
