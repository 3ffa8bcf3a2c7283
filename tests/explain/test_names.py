import numpy as np

from lcml.circuits.views import IdentityView, WindowView
from lcml.explain.names import variable_names
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder

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


def test_literals_are_put_in_the_units_of_the_table() -> None:
    """A share of 1 is its name; a column that is constant is never above its value."""
    names = ("age", "share", "order", "same", "debt")
    low, high = np.array([17, 0, 2024000000.0, 5, -0.123456789]), np.array([90.5, 1, 2024123456.789, 5, 12345.6789])
    words = ScaleEncoder(low, high).words(names)
    assert words(range(5)) == [
        *("age near 90.5", "share", "order near 2024123456.79", "same above 5", "debt near 12345.68")
    ]
    assert words([9, 8, 7, 6, 5]) == [
        *("age near 17", "not share", "order near 2024000000", "same near 5", "debt near -0.1235")
    ]
    words = BooleanEncoder(np.array([38.2333333333, 0.5, 1000])).words(names[:3])
    assert words([3, 1, 5]) == ["age < 38.23", "share >= 0.5", "order < 1000"]
