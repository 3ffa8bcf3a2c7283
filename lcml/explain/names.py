"""Names for what a circuit's variables read: features, or pixels of channels."""

from collections.abc import Iterable, Sequence

from lcml.circuits.views import IdentityView, SelectedView, View
from lcml.data.raw import default_names
from lcml.errors import DataError
from lcml.inputs.channels import ChannelEncoder, image_channels, pixel_names
from lcml.inputs.encoding import Encoder, Words, one_by_one
from lcml.model.model import LogisticCircuit


def variable_names(encoder: Encoder, view: View, feature_names: Sequence[str]) -> tuple[str, ...]:
    """A name for every variable under `view`: the encoder's, or the pixel's as channel[row,column].

    In a window, rows and columns count from the window's corner. Channels of a plain encoder, which have no name, are
    "input", or "input 0", "input 1" and so on; those of several raw images begin with "image 0", "image 1" and so on.
    """
    if isinstance(view, IdentityView):
        return encoder.variable_names(feature_names)
    if isinstance(view, SelectedView):
        names = (*encoder.variable_names(feature_names), "")
        return tuple(names[i] for i in view.inputs)
    channels = channel_names(encoder, view.image_shape[0])
    return pixel_names([channels[channel] for channel in view.chosen_channels], *view.window)


def channel_names(encoder: Encoder, n_channels: int) -> list[str]:
    """What the channels of an encoded image are called, as `variable_names` does."""
    if isinstance(encoder, ChannelEncoder):
        return image_channels(encoder.channels, encoder.n_channels)
    return ["input"] if n_channels == 1 else [f"input {channel}" for channel in range(n_channels)]


def part_words(model: LogisticCircuit, part: int, feature_names: Sequence[str] | None = None) -> Words:
    """What the literals of a part's circuit say: of the whole example as the encoder puts it, of a window by pixel.

    Features have by default the names that `shown_names` gives. Raises DataError where there are more or fewer names.
    """
    names, view = shown_names(model) if feature_names is None else feature_names, model.parts[part].view
    if len(names) != model.encoder.n_features:
        raise DataError(f"names: expected one per feature, {model.encoder.n_features}, found {len(names)}")
    if isinstance(view, IdentityView):
        return model.encoder.words(names)
    if isinstance(view, SelectedView):
        return _selected(model.encoder.words(names), view)
    return one_by_one(variable_names(model.encoder, view, names))


def _selected(words: Words, view: SelectedView) -> Words:
    """Of variables that read those of an encoder, whose words these are; what reads nothing says nothing."""

    def say(literals: Iterable[int]) -> list[str]:
        sides = ((*divmod(literal, view.n_variables),) for literal in literals)
        read = {(side, view.inputs[variable]) for side, variable in sides}
        return words(side * view.n_inputs + variable for side, variable in read if variable < view.n_inputs)

    return say


def known_names(model: LogisticCircuit) -> tuple[str, ...] | None:
    """The names of the features that the model was trained on, where its encoder or its provenance tells them."""
    if model.encoder.names:
        return model.encoder.names
    names = model.facts("data").get("feature_names")
    if not isinstance(names, list) or len(names) != model.encoder.n_features:
        return None
    return tuple(str(name) for name in names)


def shown_names(model: LogisticCircuit) -> tuple[str, ...]:
    """A name for every feature: the known one, else x0, x1 and so on."""
    return known_names(model) or default_names(model.encoder.n_features)
