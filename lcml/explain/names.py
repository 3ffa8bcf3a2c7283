"""Names for what a circuit's variables read: features, or pixels of channels."""

from collections.abc import Sequence

from lcml.circuits.views import IdentityView, View, WindowView
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import Encoder


def variable_names(encoder: Encoder, view: View, feature_names: Sequence[str]) -> tuple[str, ...]:
    """A name for every variable under `view`: the feature's, or the pixel's as channel[row,column].

    In a window, rows and columns count from the window's corner. Channels of a plain encoder, which have no name, are
    "input", or "input 0", "input 1" and so on; those of several raw images begin with "image 0", "image 1" and so on.
    """
    if isinstance(encoder, ChannelEncoder):
        n_images = encoder.image_shape[0]
        images = [""] if n_images == 1 else [f"image {image} " for image in range(n_images)]
        channels = [image + name for image in images for name in encoder.channels]
        shape = encoder.output_shape[1:]
    elif isinstance(view, IdentityView):
        return tuple(feature_names)
    else:
        n_channels = view.image_shape[0]
        channels = ["input"] if n_channels == 1 else [f"input {channel}" for channel in range(n_channels)]
    if isinstance(view, WindowView):
        channels, shape = [channels[channel] for channel in view.chosen_channels], view.window
    height, width = shape
    return tuple(f"{name}[{row},{column}]" for name in channels for row in range(height) for column in range(width))
