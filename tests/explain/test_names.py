import numpy as np

from lcml.circuits.views import IdentityView, WindowView
from lcml.explain.names import variable_names
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import ScaleEncoder

FEATURES = tuple(f"f{j}" for j in range(12))


def plain() -> ScaleEncoder:
    return ScaleEncoder(np.zeros(12), np.ones(12))


def test_features_keep_their_names() -> None:
    assert variable_names(plain(), IdentityView(12), FEATURES) == FEATURES


def test_pixels_of_a_window_are_counted_from_its_corner() -> None:
    found = variable_names(plain(), WindowView((1, 3, 4), (1, 2)), FEATURES)
    assert found == ("input[0,0]", "input[0,1]")
    found = variable_names(plain(), WindowView((2, 2, 3), (2, 1), channels=(1,)), FEATURES)
    assert found == ("input 1[0,0]", "input 1[1,0]")


def test_channels_by_name() -> None:
    one = ChannelEncoder(plain(), (3, 4), ("grey", "x+"))
    found = variable_names(one, WindowView((2, 3, 4), (1, 2)), FEATURES)
    assert found == ("grey[0,0]", "grey[0,1]", "x+[0,0]", "x+[0,1]")
    whole = variable_names(one, IdentityView(24), FEATURES)
    assert len(whole) == 24
    assert (whole[0], whole[11], whole[12], whole[-1]) == ("grey[0,0]", "grey[2,3]", "x+[0,0]", "x+[2,3]")
    two = ChannelEncoder(plain(), (2, 2, 3), ("grey", "x+"))
    found = variable_names(two, WindowView((4, 2, 3), (1, 1)), FEATURES)
    assert found == ("image 0 grey[0,0]", "image 0 x+[0,0]", "image 1 grey[0,0]", "image 1 x+[0,0]")
