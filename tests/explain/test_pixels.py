from dataclasses import replace

import numpy as np
import pytest

from lcml.circuits.parts import initial_part
from lcml.circuits.views import SelectedView, WindowView
from lcml.circuits.vtree import balanced
from lcml.explain.contributions import contributions, explain
from lcml.explain.groups import feature_groups, group_in_words, summed
from lcml.explain.pixels import evidence, image_shape, pictures, place_of
from lcml.explain.records import Pixel, Place
from lcml.explain.report.drawing import Drawing, Rect
from lcml.explain.report.why import marked
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import ScaleEncoder
from lcml.inputs.patches import Patches, PatchSpec
from lcml.model.model import LogisticCircuit
from tests.explain.test_contributions import parts_model

IMAGE = np.array([[0.5, 0.25, 1.0, 0.0], [0.0, 1.0, 1.0, 0.5], [0.25, 0.25, 0.75, 1.0]])


def test_a_window_is_found_where_its_condition_holds_most() -> None:
    """Both of two pixels bright: in the left cell of row 1 at columns (0, 1) and (1, 2), of which 0 and 1 hold."""
    model = parts_model()
    groups = feature_groups(model)
    q = IMAGE.ravel()
    assert image_shape(model) == (1, 3, 4)
    assert pictures(model, q[None])[0, 1].tolist() == [0, 255, 255, 128]
    both = next(g for g in groups if g.part == 0 and g.cell == 2 and g.features[0] % 4 == 0)
    pixels = Pixel("input", 1, 1, True), Pixel("input", 1, 2, True)
    assert place_of(model, both, q) == Place(0, 2, 1, 1, 1, 2, True, pixels)
    whole = place_of(model, next(g for g in groups if g.part == 1), q)
    assert whole is not None
    assert (whole.row, whole.column, whole.height, whole.width, whole.is_window) == (0, 0, 3, 4, False)
    assert whole.pixels == (Pixel("input", 0, 0, True),)


def test_evidence_lies_where_conditions_read_and_is_all_there() -> None:
    model = parts_model()
    groups = feature_groups(model)
    added = contributions(model, IMAGE.reshape(1, 12))[0]
    maps = evidence(model, groups, np.stack([summed(of_set, groups) for of_set in added]))
    assert maps.shape == (3, 3, 4)
    assert maps.sum(axis=(1, 2)) == pytest.approx(added.sum(axis=1))
    alone = np.zeros((1, len(groups)))
    alone[0, next(i for i, g in enumerate(groups) if g.part == 0 and g.cell == 2)] = 4.0
    assert evidence(model, groups, alone)[0].tolist() == [[0] * 4, [1, 2, 1, 0], [0] * 4]


def test_positions_count_as_their_cell_weighs_them() -> None:
    """The left cell reaches over to the right one: its windows, at columns 0, 1 and 2, count 3, 2 and 1 times."""
    plain = parts_model()
    view = plain.parts[0].view
    assert isinstance(view, WindowView)
    model = replace(plain, parts=(replace(plain.parts[0], view=replace(view, overlap=(0, 1))), plain.parts[1]))
    groups = feature_groups(model)
    alone = np.zeros((1, len(groups)))
    number = next(i for i, g in enumerate(groups) if g.part == 0 and g.cell == 2 and g.features[0] % 4 == 0)
    alone[0, number] = 12.0
    assert evidence(model, groups, alone)[0].tolist() == [[0] * 4, [3, 5, 3, 1], [0] * 4]
    image = IMAGE.copy()
    image[1] = [0.75, 1.0, 1.0, 0.5]  # both: 0.75, 1 and 0.5, of which the cell has 2.25, 2 and 0.5
    place = place_of(model, groups[number], image.ravel())
    assert place is not None
    assert (place.row, place.column) == (1, 0)


def test_blocks_of_pixels_are_shown_as_large_as_they_are() -> None:
    """The same circuits over blocks of 2 x 2 pixels of an image twice as high and wide."""
    plain = parts_model()
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(48), np.ones(48)), (6, 8), ("grey",), pool=2)
    model = replace(plain, encoder=encoder)
    image = np.kron(IMAGE, np.ones((2, 2)))
    groups = feature_groups(model)
    assert pictures(model, image.reshape(1, 48)).shape == (1, 6, 8)
    both = next(g for g in groups if g.part == 0 and g.cell == 2 and g.features[0] % 4 == 0)
    pixels = Pixel("grey", 2, 2, True, 2), Pixel("grey", 2, 4, True, 2)
    place = place_of(model, both, IMAGE.ravel())
    assert place == Place(0, 2, 2, 2, 2, 4, True, pixels)
    drawing = marked(Drawing(48, 36, "an image"), (6, 8), [(place, 1.0, "both")])  # a pixel is 6 wide, a block 12
    squares = [(s.x, s.y, s.width, s.height) for s in drawing.shapes if isinstance(s, Rect) and s.fill]
    assert squares == [(14, 14, 8, 8), (26, 14, 8, 8)]
    alone = np.zeros((1, len(groups)))
    alone[0, next(i for i, g in enumerate(groups) if g.part == 0 and g.cell == 2)] = 4.0
    expected = np.zeros((6, 8))
    expected[2:4] = [0.25, 0.25, 0.5, 0.5, 0.25, 0.25, 0, 0]
    assert evidence(model, groups, alone)[0].tolist() == expected.tolist()


def test_an_explanation_tells_places_of_images_as_plain_values() -> None:
    found = explain(parts_model(), IMAGE.ravel(), top=3).as_dict()
    places = [part["place"] for part in found["contributions"]]
    pixels = [pixel for place in places for pixel in place["pixels"]]
    assert {pixel["channel"] for pixel in pixels} == {"input"}
    assert max(pixel["column"] for pixel in pixels) <= 3


def test_what_patches_add_lies_on_their_cells() -> None:
    """A condition on the left cell of 1 x 2 windows: of places 0 and 1, which read pixels 0 to 2."""
    spec, filters = PatchSpec(1, (1, 2), grid=(1, 2), overlap=(0, 0)), np.array([[[[1, -1]]]], np.float32)
    patches = Patches(spec, filters, np.zeros(1, np.float32), (1, 5))
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(5), np.ones(5)), (1, 5), ("grey",), 1, (patches,))
    part = initial_part(SelectedView(encoder.n_outputs, tuple(encoder.of_patches)), balanced(4))
    model = LogisticCircuit(encoder, (part,), (0, 1), np.ones((1, part.n_features)), np.zeros(1))
    groups = feature_groups(model)
    names = [group_in_words(model, group, None) for group in groups]
    number = names.index("patch 0+ in (0,0) and patch 0- in (0,0)")
    added = np.zeros((1, len(groups)))
    added[0, number] = 8.0
    assert evidence(model, groups, added)[0].tolist() == [[2, 4, 2, 0, 0]]
    place = place_of(model, groups[number], encoder.encode([[0.5, 0, 1, 0, 0]])[0])
    assert place is not None
    assert place.pixels == ()
