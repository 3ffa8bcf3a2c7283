"""Trainings of several parts, with channels and augmentation: the whole way, and resumed."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcml.backend import get_backend
from lcml.circuits import vtree
from lcml.circuits.parts import Part
from lcml.circuits.views import IdentityView, WindowView
from lcml.data import Examples
from lcml.errors import LcmlError, SettingsError
from lcml.formats import load_model
from lcml.inputs.augmentation import augmented
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import ScaleEncoder
from lcml.inputs.encoding import EncodedRows
from lcml.learning.learner import Learner
from lcml.learning.settings import LearnSettings
from lcml.model.model import LogisticCircuit
from lcml.passes.feature_store import FeatureStore
from lcml.runs.checkpoint import load_checkpoint
from lcml.runs.config import TrainConfig
from lcml.runs.preparation import prepare, to_learn_from
from lcml.runs.records import RoundRecord
from lcml.runs.specs import parse_augment
from lcml.runs.training import make_learner
from tests.cli.commands import output, refused
from tests.runs.test_training import Recorder, trained

CONFIG = TrainConfig(
    train_fraction=0.3,
    channels=("grey", "x+"),
    view=("window=3,stride=2,grid=2,root,channels=x+", "whole,offset=1"),
    augment="copies=1,shift=1,cross",
    learn=LearnSettings(rounds=2, round_iterations=4, final_iterations=4, l2_path=(1e-2, 1e-4), score_examples=600),
)


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def weights(model: LogisticCircuit) -> bytes:
    circuits = (part.circuit for part in model.parts)
    structure = [array for c in circuits for array in (c.or_start, c.elem_prime, c.elem_sub)]
    arrays = (*structure, *(part.weighted for part in model.parts), model.weights, model.bias)
    return b"".join(np.asarray(array).tobytes() for array in arrays)


def test_every_checkpoint_of_several_parts_resumes_to_the_same_model() -> None:
    kept: list[Path] = []

    def keep(record: RoundRecord) -> None:
        (checkpoint,) = Path("checkpoints").iterdir()
        kept.append(Path(f"kept-{len(kept)}"))
        kept[-1].write_bytes(checkpoint.read_bytes())

    whole, _ = trained(CONFIG, on_round=keep)
    assert whole.rounds == 2
    assert load_checkpoint(kept[1]).config == CONFIG
    for path in kept[:4]:
        assert weights(trained(CONFIG, resumed=path)[0].model) == weights(whole.model)


def test_the_record_of_several_parts() -> None:
    tracker, records = Recorder(), list[RoundRecord]()
    outcome, _ = trained(CONFIG, tracker, records.append)
    model = load_model("digits.lcml")
    assert weights(model) == weights(outcome.model)
    assert isinstance(model.encoder, ChannelEncoder)
    assert model.encoder.channels == ("grey", "x+")
    assert [part.view for part in model.parts] == [
        WindowView((2, 8, 8), (3, 3), (2, 2), grid=(2, 2), root=True, channels=(1,)),
        IdentityView(128),
    ]
    assert model.parts[1].circuit.vtree.same_as(vtree.grid(8, 8, (1, 1), n_channels=2))
    for name, value in (("channels", ["grey", "x+"]), ("view", list(CONFIG.view)), ("augment", CONFIG.augment)):
        assert tracker.params[name] == model.provenance["settings"][name] == value
    assert model.provenance["data"]["image_shape"] == [8, 8]
    settings = tomllib.loads(tracker.files["settings.toml"].decode())
    assert TrainConfig().with_options(settings) == CONFIG
    assert records[0].n_parameters == 10 * (1 + sum(part.n_features for part in initial_parts()))

    lines = [json.loads(line) for line in tracker.files["splits.jsonl"].splitlines()]
    assert {line["part"] for line in lines} == {0, 1}
    for line in lines:
        channel, pixel = divmod(line["variable"], 9 if line["part"] == 0 else 64)
        row, column = divmod(pixel, 3 if line["part"] == 0 else 8)
        name = "x+" if line["part"] == 0 else ("grey", "x+")[channel]
        assert line["feature"] == f"part {line['part']}: {name}[{row},{column}]"


def initial_parts() -> tuple[Part, ...]:
    learner = make_learner(prepare(CONFIG))
    assert isinstance(learner, Learner)
    return learner.initial


def test_a_run_without_images_or_several_parts_has_none_of_these_parameters() -> None:
    tracker = Recorder()
    trained(TrainConfig(data="iris", learn=replace(CONFIG.learn, rounds=0)), tracker)
    assert not {"channels", "view", "augment", "image_shape"} & set(tracker.params)


def test_only_training_images_are_distorted() -> None:
    prepared = prepare(replace(CONFIG, augment="copies=3,shift=1"))
    splits, encoder = prepared.splits, prepared.encoder
    n = len(splits.train)
    assert prepared.train.labels.tolist() == splits.train.labels.tolist() * 4
    assert np.array_equal(prepared.train.values[:n], encoder.encode(splits.train.features))
    assert not np.array_equal(prepared.train.values[n : 2 * n], prepared.train.values[:n])
    assert np.array_equal(prepared.valid.values[:], encoder.encode(splits.valid.features))


def test_distorted_images_that_would_fill_memory_are_computed_when_read() -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(20, 16)).astype(np.uint8)
    examples, encoder = Examples(images, np.arange(20) % 2), ScaleEncoder(np.zeros(16), np.full(16, 255.0))
    augmentation = parse_augment("copies=2,shift=1,rotation=20")
    backend = get_backend("numpy")
    kept, computed = (
        to_learn_from(
            examples, encoder, augmentation, (1, 4, 4), LearnSettings(seed=3, memory_budget=megabytes), backend
        )
        for megabytes in (1000, 0)
    )
    assert isinstance(kept.values, np.ndarray)
    assert isinstance(computed.values, EncodedRows)
    expected = encoder.encode(np.asarray(augmented(images, (4, 4), augmentation, 3)))
    assert np.array_equal(kept.values, expected)
    assert np.array_equal(computed.values[10:50], expected[10:50])
    assert computed.values.shape == expected.shape == (60, 16)
    assert computed.labels.tolist() == kept.labels.tolist() == (np.arange(20) % 2).tolist() * 3


def test_distorted_images_are_kept_as_they_are_made_and_encoded_when_read() -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(20, 16)).astype(np.uint8)
    base = ScaleEncoder(np.zeros(16), np.full(16, 255.0))
    encoder, augmentation = ChannelEncoder(base, (4, 4), ("grey", "x+")), parse_augment("copies=2,rotation=20")
    settings, backend = LearnSettings(seed=3), get_backend("numpy")
    kept = to_learn_from(Examples(images, np.arange(20) % 2), encoder, augmentation, (1, 4, 4), settings, backend)
    assert isinstance(kept.values, EncodedRows)
    assert isinstance(kept.values.rows, np.ndarray)
    assert kept.values.rows.dtype == np.uint8
    distorted = np.asarray(augmented(images, (4, 4), augmentation, 3))
    assert np.array_equal(kept.values[15:45], encoder.encode(distorted)[15:45])


def test_a_table_of_samples_is_a_sequence() -> None:
    """Two ones side by side somewhere in 20 samples against two apart: a window of two tells, wherever they are."""
    generator = np.random.default_rng(0)
    y, rows = np.arange(200) % 2, np.arange(200)
    x = generator.random((200, 20)) * 0.2
    at = generator.integers(0, 16, 200)
    x[rows, at] = x[rows, np.where(y == 1, at + 1, at + 3)] = 1.0
    np.savez("waves.npz", X=x, y=y)
    config = replace(CONFIG, data="waves.npz", channels=(), augment=None, train_fraction=1.0, image_shape="1x20")
    outcome, _ = trained(replace(config, view=("window=1x2,root",)))
    assert outcome.model.parts[0].view == WindowView((1, 1, 20), (1, 2), root=True)
    assert outcome.model.provenance["data"]["image_shape"] == [1, 20]
    assert outcome.test is not None
    assert outcome.test.accuracy > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": "iris", "view": ("window=2",)}, "view 'window=2': .* no image shape"),
        ({"data": "iris", "channels": ("x+",)}, "channels: x. are made of images"),
        ({"data": "iris", "augment": "copies=1"}, "augment: only images and sequences can be distorted"),
        (
            {"image_shape": "9x7"},
            "image_shape: expected sizes whose product is 64, .* of scikit-learn's digits, found 9x7",
        ),
        ({"view": ("window=9",)}, "view 'window=9': window of 9 rows on an image of 8"),
        ({"view": ("window=3,root", "window=3", "window=3x3,grid=1")}, "found 'window=3' and 'window=3x3,grid=1'"),
        ({"view": ("whole", "whole")}, "found 'whole' and 'whole', which read the same in the same way; drop one"),
        ({"view": ("window=3,apart", "window=3,channels=0")}, "found 'window=3,apart' and 'window=3,channels=0'"),
        ({"augment": "copies=1,shift=8"}, "shift: expected less than the 8 pixels"),
    ],
)
def test_what_does_not_fit_the_data_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(LcmlError, match=message):
        prepare(TrainConfig().with_options(options))
    assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": ["window"]}, "view 'window': expected 'whole', 'patches' or a window"),
        ({"augment": "4"}, "augment '4': found '4'"),
        ({"export": True, "missing": "expected"}, "export: missing 'expected' has no ONNX graph"),
        ({"average": True, "prune_to": 400}, "prune_to: fits once more, which undoes `average`"),
        ({"channels": ["red"]}, "channels: unknown 'red'; choose one or more, each once, of grey"),
        ({"channels": ["x+", "x+"]}, "channels: found"),
        ({"image_shape": "big"}, "image_shape: expected ROWSxCOLUMNS"),
        ({"view": ["window=3"], "vtree": "balanced"}, "vtree and vtree_offset are for the view 'whole'"),
        ({"view": ["window=3"], "vtree_offset": [1, 1]}, "vtree and vtree_offset are for the view 'whole'"),
    ],
)
def test_options_without_meaning_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        TrainConfig().with_options(options)


def test_a_run_averages_two_fits_and_resumes_to_the_same_model() -> None:
    learn = replace(CONFIG.learn, refit=True, metric="log-loss", average=True)
    config = replace(CONFIG, augment="copies=3,shift=1,rotation=20", learn=learn)
    tracker, records = Recorder(), list[RoundRecord]()
    outcome, checkpoint = trained(config, tracker=tracker, on_round=records.append)
    assert [record.phase for record in records][-5:] == ["refine"] * 2 + ["average"] * 2 + ["refit"]
    path = [values["penalty/l2"] for _, values in tracker.points if "penalty/l2" in values]
    assert path == [1e-2, 1e-4, 1e-2, 1e-4]
    assert outcome.valid.log_loss == min(record.valid_loss for record in records)
    assert outcome.model.facts("training")["l2_squares"] in learn.l2_path
    again, _ = trained(resumed=checkpoint, config=config)
    assert weights(again.model) == weights(outcome.model)
    error = refused("compact", "digits.lcml", "digits", "--max-conditions", "9", "-o", "small.lcml")
    assert "this model is a mean of two fits (`average`)" in error
    assert not Path("small.lcml").exists()


def test_a_table_has_no_distorted_copies() -> None:
    Path("table.csv").write_text("a,label\n" + "".join(f"{number},{number % 2}\n" for number in range(60)))
    with pytest.raises(SettingsError, match=r"augment: only images .*, and these data are a table; leave it out"):
        prepare(TrainConfig().with_options({"data": "table.csv", "augment": "copies=1"}))


def test_pruning_at_the_end_is_that_of_compact_and_stops_as_learning_does() -> None:
    config, tracker, records = replace(CONFIG, prune_to=400), Recorder(), list[RoundRecord]()
    config = replace(config, learn=replace(config.learn, refit=True))
    outcome, _ = trained(config, tracker, on_round=records.append)
    large, _ = trained(replace(CONFIG, output="large.lcml"))
    output("compact", "large.lcml", "digits", "--max-parameters", 400, "-o", "small.lcml")
    small = load_model("small.lcml")
    assert weights(load_model("digits.lcml")) == weights(outcome.model) == weights(small)
    assert outcome.model.n_parameters == 400 < large.model.n_parameters

    found = json.loads(output("inspect", "digits.lcml", "--json"))
    assert found["n_element_weights"] + found["n_literal_weights"] + 10 == 400
    assert 10 * sum(part["features"] for part in found["parts"]) + 10 == 400
    output("export", "digits.lcml", "-o", "digits.onnx")  # which compares what both answer

    steps = [record for record in records if record.phase == "prune"]
    assert [record.phase for record in records] == [*["grow"] * 3, *["refine"] * 2, *["prune"] * len(steps)]
    assert (steps[0].n_parameters, steps[-1].n_parameters) == (large.model.n_parameters, 400)
    points = {step: values for step, values in tracker.points if "circuit/n_parameters" in values}
    assert [values["circuit/n_parameters"] for _, values in sorted(points.items())][-len(steps) :] == [
        record.n_parameters for record in steps
    ]
    told = outcome.model.provenance
    assert told["pruning"] == small.provenance["pruning"]
    assert told["training"]["valid_accuracy"] == outcome.valid.accuracy == told["pruning"]["valid_accuracy"]
    assert steps[-1].valid_loss == told["pruning"]["valid_log_loss"]
    fitted_to = prepare(config).everything()
    n_inputs = outcome.model.parts[0].view.n_inputs
    encoded = replace(outcome.model, encoder=ScaleEncoder(np.zeros(n_inputs), np.ones(n_inputs)))
    found = np.mean(encoded.codes(encoded.logits(fitted_to.values[:])) == fitted_to.labels)
    assert outcome.train_accuracy == pytest.approx(found, abs=2 / len(fitted_to.labels))
    assert outcome.train_accuracy < 1
    assert outcome.profile["prune"] > 0

    records.clear()
    stopped, checkpoint = trained(
        config, on_round=records.append, should_stop=lambda: [record.phase for record in records[-2:]] == ["prune"] * 2
    )
    assert stopped.stopped
    assert weights(stopped.model) == weights(large.model)
    assert "pruning" not in stopped.model.provenance
    again, _ = trained(resumed=checkpoint, config=config)
    assert weights(again.model) == weights(outcome.model)


def test_a_model_that_is_small_enough_is_not_pruned_and_none_when_the_time_is_up() -> None:
    learn = replace(CONFIG.learn, refit=True)
    records = list[RoundRecord]()
    plain, _ = trained(replace(CONFIG, learn=learn))
    n = plain.model.n_parameters
    kept, _ = trained(replace(CONFIG, learn=learn, prune_to=n), on_round=records.append)
    assert [record.phase for record in records][-2:] == ["refine", "refit"]
    assert weights(kept.model) == weights(plain.model)
    assert "pruning" not in kept.model.provenance

    late, _ = trained(replace(CONFIG, learn=replace(learn, time_limit=1e-9), prune_to=n // 2))
    assert "pruning" not in late.model.provenance
    assert not late.stopped


def test_pruning_keeps_to_the_memory_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """What did not fit while it grew is computed anew while it is pruned, to the same model up to rounding."""
    kept = list[bool]()
    made = FeatureStore.__init__

    def watched(self: FeatureStore, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        kept.append(self.is_in_memory)

    monkeypatch.setattr(FeatureStore, "__init__", watched)
    config = replace(CONFIG, prune_to=2000, learn=replace(CONFIG.learn, precision="float64"))
    valid = trained(config)[0].valid
    assert kept
    assert all(kept)
    kept.clear()
    other = trained(replace(config, learn=replace(config.learn, memory_budget=0)))[0].valid
    assert kept
    assert not any(kept)
    assert other.log_loss == pytest.approx(valid.log_loss, abs=1e-3)  # pruning keeps 16 bits
