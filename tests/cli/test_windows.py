"""A model of windows from the command line: trained, measured, looked at, compacted, exported."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lcml import load_model
from lcml.circuits.parts import Part
from lcml.data import load_splits
from lcml.formats import save_model
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import ScaleEncoder
from tests.cli.commands import output, refused
from tests.explain.test_contributions import parts_model

QUICK = ("--no-tracking", "--rounds", "1", "--round-iterations", "5", "--final-iterations", "5", "--quiet")


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("windows") / "w.lcml"
    options = ("--view", "window=4,grid=2,root", "--view", "whole,offset=1", "--channels", "grey", "--channels", "x+")
    found = json.loads(output("train", "digits", *options, *QUICK, "--json", "-o", path))
    model = load_model(path)
    assert (found["n_parts"], found["n_variables"], found["n_parameters"]) == (2, 128, model.n_parameters)
    assert found["n_elements"] == sum(part.circuit.n_elements for part in model.parts)
    assert found["test_accuracy"] > 0.9
    return path


def test_evaluate_and_predict(windows: Path) -> None:
    model, test = load_model(windows), load_splits("digits").test
    found = json.loads(output("evaluate", windows, "digits", "--json"))
    assert found["test_accuracy"] == pytest.approx((model.predict(test.features) == test.labels).mean(), abs=3e-3)
    assert (found["n_variables"], found["n_elements"]) == (128, model.n_elements)
    rows = list(csv.reader(io.StringIO(output("predict", windows, "digits", "--backend", "numpy"))))[1:]
    np.testing.assert_allclose(np.array(rows, float)[:, 1:], model.predict_proba(test.features), atol=1e-5)


def test_inspect_shows_every_part(windows: Path) -> None:
    model = load_model(windows)
    found = json.loads(output("inspect", windows, "--json", "--top", 2))
    assert (found["encoder"], found["channels"], found["n_parts"]) == ("channels", ["grey", "x+"], 2)
    assert [part["view"] for part in found["parts"]] == [part.view.as_dict() for part in model.parts]
    assert [part["features"] for part in found["parts"]] == [part.n_features for part in model.parts]
    assert [(part["positions"], part["cells"]) for part in found["parts"]] == [(25, 4), (1, 1)]
    for number, part in enumerate(model.parts):
        of_part = [level for level in found["levels"] if level["part"] == number]
        assert sum(level["elements"] for level in of_part) == part.circuit.n_elements
        assert sum(level["or_gates"] for level in of_part) == part.circuit.n_or_gates
    weights = found["n_element_weights"] + found["n_literal_weights"] + found["n_biases"]
    assert weights == found["n_parameters"] == model.n_parameters
    text = output("inspect", windows)
    assert "window 4x4, stride 1x1, padding 0x0, grid 2x2, root" in text
    assert "pool" not in found


def test_inspect_tells_over_what_blocks_channels_were_averaged(tmp_path: Path) -> None:
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(48), np.ones(48)), (6, 8), ("grey",), pool=2)
    save_model(replace(parts_model(), encoder=encoder), tmp_path / "pooled.lcml")
    assert json.loads(output("inspect", tmp_path / "pooled.lcml", "--json"))["pool"] == 2


def test_explain_says_where(windows: Path) -> None:
    found = json.loads(output("explain", windows, "digits", "--row", 3, "--top", 400, "--json"))
    model, x = load_model(windows), load_splits("digits").test.features[3:4]
    assert found["logit"] == pytest.approx(model.logits(x, precision="float64").max())
    texts = [part["condition"] for part in found["contributions"]]
    assert any(text.endswith(" in cell (1, 0) of part 0") for text in texts)
    assert any(text.endswith(" in part 1") for text in texts)
    shown = sum(part["contribution"] for part in found["contributions"])
    assert found["baseline"] + shown + found["rest"] == pytest.approx(found["logit"])


def test_compact(windows: Path, tmp_path: Path) -> None:
    """Square roots keep every weight. Of the whole stay the elements but one of every gate, and no literal."""
    trained = load_model(windows)
    rooted, whole = (Part.full(part.view, part.circuit) for part in trained.parts)
    weights = np.random.default_rng(0).normal(size=(10, rooted.n_features + whole.n_features))
    before = replace(trained, parts=(rooted, whole), weights=weights)
    save_model(before, tmp_path / "full.lcml")
    counts = json.loads(output("compact", tmp_path / "full.lcml", "-o", tmp_path / "small.lcml", "--json"))
    after = load_model(tmp_path / "small.lcml")
    n_kept = rooted.n_features + whole.circuit.n_elements - whole.circuit.n_or_gates
    assert counts["n_parameters_before"] == before.n_parameters
    assert counts["n_parameters_after"] == after.n_parameters == 10 * (n_kept + 1) < before.n_parameters
    x = load_splits("digits").test.features
    np.testing.assert_allclose(
        after.logits(x, precision="float64"), before.logits(x, precision="float64"), rtol=0, atol=1e-9
    )


def test_windows_are_not_converted(windows: Path, tmp_path: Path) -> None:
    message = refused("convert", windows, "-o", tmp_path / "x.circuit")
    assert "one circuit over the whole example; this one has 2 parts" in message
    assert not list(tmp_path.iterdir())


def test_export(windows: Path, tmp_path: Path) -> None:
    from onnxruntime import InferenceSession

    output("export", windows, "-o", tmp_path / "w.onnx")
    x = load_splits("digits").test.features[:50]
    session = InferenceSession(tmp_path / "w.onnx")
    given = session.get_inputs()[0]
    kind = np.float64 if given.type == "tensor(double)" else np.float32
    (found,) = session.run(["probabilities"], {given.name: x.astype(kind)})
    np.testing.assert_allclose(found, load_model(windows).predict_proba(x), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--view", "window=9x"), "view 'window=9x': window: expected a whole number or ROWSxCOLUMNS"),
        (("--view", "window=12"), "view 'window=12': window of 12 rows on an image of 8"),
        (("--view", "window=3,channels=y+"), "view 'window=3,channels=y+': channels: found 'y+'"),
        (("--channels", "foo"), "channels: unknown 'foo'; choose one or more"),
        (("--augment", "copies=x"), "augment 'copies=x': copies: expected a whole number, found 'x'"),
        (("--image-shape", "3x3"), "image_shape: expected sizes whose product is 64"),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], message: str) -> None:
    assert message in refused("train", "digits", "--no-tracking", *options)


def test_options_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text('view = ["window=4,root"]\nchannels = ["x+"]\naugment = "copies=1,shift=1"\n')
    path = tmp_path / "w.lcml"
    output("train", "digits", "--config", tmp_path / "w.toml", *QUICK, "--train-fraction", "0.2", "-o", path)
    model = load_model(path)
    assert model.encoder.kind == "channels"
    assert model.parts[0].view.as_dict()["window"] == [4, 4]
    assert model.provenance["settings"]["augment"] == "copies=1,shift=1"
    (tmp_path / "w.toml").write_text("view = 5\n")
    assert "view: expected a list, each text, found 5" in refused("train", "digits", "--config", tmp_path / "w.toml")


PATCHES = ("--channels", "grey", "--patches", "count=6,size=3,grid=2,overlap=1", "--patches", "count=4,size=4,grid=1")


def test_patches_are_learned_told_explained_and_exported(tmp_path: Path) -> None:
    path, views = tmp_path / "p.lcml", ("--view", "window=4,grid=2,root", "--view", "patches")
    output("train", "digits", *PATCHES, *views, "--average", *QUICK, "--metric", "log-loss", "-o", path)
    model = load_model(path)
    encoder = model.encoder
    assert isinstance(encoder, ChannelEncoder)
    assert (encoder.output_shape, encoder.of_patches) == ((2, 8, 8), range(64, 120))
    window, patches = model.parts
    assert window.view.n_inputs == patches.view.n_inputs == 128
    assert patches.view.index.tolist() == [[*range(64, 120)]]
    assert np.count_nonzero(patches.weighted[patches.circuit.n_literals :]) == patches.n_features
    before = tmp_path / "before.lcml"
    output("train", "digits", *PATCHES, *views, *QUICK, "--rounds", 0, "-o", before)
    assert load_model(before).parts[1].circuit.same_as(patches.circuit)  # windows are split, patches are not
    assert load_model(before).parts[0].circuit.n_elements < window.circuit.n_elements
    assert "56 of 128 variables" in output("inspect", path)
    told = output("explain", path, "digits", "--row", 3, "--top", 400)
    assert "patch 0/1+ in (0,1)" in told
    assert "in cell (1, 1) of part 0" in told
    found = json.loads(output("export", path, "-o", tmp_path / "p.onnx", "--json"))
    assert found["n_bytes"] == (tmp_path / "p.onnx").stat().st_size
    test = load_splits("digits").test
    right = (model.predict(test.features) == test.labels).mean()
    assert right == pytest.approx(json.loads(output("evaluate", path, "digits", "--json"))["test_accuracy"], abs=3e-3)
    assert right > 0.95


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--view", "patches"), "view 'patches': there are no patches to read; give --patches as well"),
        ((*PATCHES, "--view", "window=3"), "patches: no view reads them; give --view patches as well"),
        (("--patches", "count=3", "--view", "patches"), "patches: these come beside channels, but none were asked for"),
        (
            ("--patches", "size=3"),
            "patches 'size=3': found no count; expected settings such as 'count=256,size=7,grid=4'",
        ),
        (("--patches", "count=0"), "patches 'count=0': count: expected 1 or more, found 0"),
        (("--patches", "count=2,size=x"), "patches 'count=2,size=x': size: expected a whole number or ROWSxCOLUMNS"),
        (
            ("--channels", "grey", "--patches", "count=2", "--view", "patches"),
            "patches: 2 rows of places do not make 4 rows of cells with an overlap of 2; use smaller patches",
        ),
    ],
)
def test_patches_that_cannot_be_are_refused(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert message in refused("train", "digits", *options, *QUICK, "-o", tmp_path / "x.lcml")
    assert not (tmp_path / "x.lcml").exists()
