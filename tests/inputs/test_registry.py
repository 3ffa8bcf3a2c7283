"""What an encoder must do is enough: one of a table of text and numbers, with gaps, predicts and is explained."""

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.circuits.circuit import initial_circuit
from lcml.circuits.vtree import balanced
from lcml.errors import FormatError, SettingsError
from lcml.explain.contributions import explain
from lcml.formats import load_model, save_model
from lcml.inputs import registry
from lcml.inputs.encoding import Encoder, State
from lcml.model.model import LogisticCircuit

ROWS = [("apple", 150.0), ("fig", None), (None, 300.0), ("durian", 0.0)]


@dataclass(frozen=True, eq=False)
class FruitEncoder(Encoder):
    """Rows (fruit, grams) with gaps: a variable for every fruit known, and grams from `low` to `high`."""

    fruits: tuple[str, ...]
    low: float
    high: float
    kind: ClassVar[str] = "fruit"

    @property
    def n_features(self) -> int:
        return 2

    @property
    def n_outputs(self) -> int:
        return len(self.fruits) + 1

    def encode(self, x: Any, *, gaps: bool = False) -> NDArray[np.float32]:
        known = [[fruit == one for one in self.fruits] for fruit, _ in x]
        grams = np.array([self.low if grams is None else grams for _, grams in x])
        share = (np.clip(grams, self.low, self.high) - self.low) / (self.high - self.low)
        return np.column_stack([np.array(known, np.float32).reshape(len(x), -1), share]).astype(np.float32)

    def variable_names(self, feature_names: Sequence[str]) -> tuple[str, ...]:
        return (*(f"{feature_names[0]} is {fruit!r}" for fruit in self.fruits), f"high {feature_names[1]}")

    def inputs_at(self, shares: FloatArray) -> list[tuple[str | None, float]]:
        fruits = [*self.fruits, None]
        return [
            (fruits[int(np.clip(one, 0, 1) * len(self.fruits))], self.low + two * (self.high - self.low))
            for one, two in shares.tolist()
        ]

    def state(self) -> State:
        return {"fruits": np.array(self.fruits), "range": np.array([self.low, self.high])}

    @classmethod
    def from_state(cls, state: State) -> Self:
        return cls(tuple(state["fruits"].tolist()), *state["range"].tolist())


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> LogisticCircuit:
    """Its logit: 1 for an apple, 2 for a fig, and 4 times the grams from 0 to 200."""
    monkeypatch.setitem(registry.ENCODERS, "fruit", FruitEncoder)
    circuit = initial_circuit(balanced(3))
    literals, elements = np.array([[1.0, 2, 4, 0, 0, 0]]), np.zeros((1, circuit.n_elements))
    encoder = FruitEncoder(("apple", "fig"), 0.0, 200.0)
    names = {"data": {"feature_names": ["fruit", "grams"]}}
    return LogisticCircuit.flat(circuit, encoder, ("stays", "goes"), elements, literals, np.zeros(1), provenance=names)


def test_rows_with_text_and_gaps_are_predicted(model: LogisticCircuit) -> None:
    assert model.logits(ROWS)[:, 0].tolist() == [1 + 3, 2, 4, 0]
    assert model.encoder.inputs_at(np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])) == [
        *(("apple", 0.0), ("fig", 100.0), (None, 200.0))
    ]


def test_a_state_with_text_is_saved(model: LogisticCircuit, tmp_path: Path) -> None:
    save_model(model, tmp_path / "fruit.lcml")
    with zipfile.ZipFile(tmp_path / "fruit.lcml") as archive:
        header = json.loads(archive.read("lcml.json"))
        assert json.loads(archive.read("encoder/fruits.json")) == ["apple", "fig"]
    assert (header["version"], header["texts"]) == (3, ["encoder/fruits"])
    loaded = load_model(tmp_path / "fruit.lcml")
    assert isinstance(loaded.encoder, FruitEncoder)
    assert (loaded.encoder.fruits, loaded.encoder.low, loaded.encoder.high) == (("apple", "fig"), 0.0, 200.0)
    assert loaded.logits(ROWS).tolist() == model.logits(ROWS).tolist()


def test_it_is_explained_by_default_with_the_names_of_its_features(model: LogisticCircuit) -> None:
    found = explain(model, ("apple", 150.0))
    assert (found.label, found.logit) == ("goes", 4.0)
    assert [(one.condition, one.contribution) for one in found.contributions] == [
        *(("high grams", 3.0), ("fruit is 'apple'", 1.0))
    ]


def test_an_unknown_kind_is_refused(model: LogisticCircuit, tmp_path: Path) -> None:
    from lcml_export import export_model

    with pytest.raises(
        FormatError, match="not an encoder: kind 'spline'; expected scale, boolean, channels, columns, fruit"
    ):
        registry.stored_encoder("spline", {})
    with pytest.raises(SettingsError, match="encoder 'fruit': expected one that ONNX can hold: scale, boolean"):
        export_model(model, tmp_path / "fruit.onnx")
