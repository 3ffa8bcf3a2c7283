"""Names for what a circuit's variables read: features, or pixels of channels."""

from collections.abc import Sequence

from lcml.circuits.views import IdentityView, View
from lcml.data.raw import default_names
from lcml.errors import DataError
from lcml.inputs.channels import image_channels, pixel_names
from lcml.inputs.encoding import Encoder, Words, one_by_one
from lcml.model.model import LogisticCircuit


def variable_names(encoder: Encoder, view: View, feature_names: Sequence[str]) -> tuple[str, ...]:
    """A name for every variable under `view`: the encoder's, or the pixel's as channel[row,column].

    In a window, rows and columns count from the window's corner. Channels of a plain encoder, which have no name, are
    "input", or "input 0", "input 1" and so on; those of several raw images begin with "image 0", "image 1" and so on.
    """
    if isinstance(view, IdentityView):
        return encoder.variable_names(feature_names)
    n_channels = view.image_shape[0]
    if encoder.channels:
        channels = image_channels(encoder.channels, n_channels)
    else:
        channels = ["input"] if n_channels == 1 else [f"input {channel}" for channel in range(n_channels)]
    return pixel_names([channels[channel] for channel in view.chosen_channels], *view.window)


def part_words(model: LogisticCircuit, part: int, feature_names: Sequence[str] | None = None) -> Words:
    """What the literals of a part's circuit say: of the whole example as the encoder puts it, of a window by pixel.

    Features have by default the names that `shown_names` gives. Raises DataError where there are more or fewer names.
    """
    names, view = shown_names(model) if feature_names is None else feature_names, model.parts[part].view
    if len(names) != model.encoder.n_features:
        raise DataError(f"names: expected one per feature, {model.encoder.n_features}, found {len(names)}")
    if isinstance(view, IdentityView):
        return model.encoder.words(names)
    return one_by_one(variable_names(model.encoder, view, names))


def known_names(model: LogisticCircuit) -> tuple[str, ...] | None:
    """The names of the features that the model was trained on, where its provenance tells them."""
    data = model.provenance.get("data")
    names = data.get("feature_names") if isinstance(data, dict) else None
    if not isinstance(names, list) or len(names) != model.encoder.n_features:
        return None
    return tuple(str(name) for name in names)


def shown_names(model: LogisticCircuit) -> tuple[str, ...]:
    """A name for every feature: the known one, else x0, x1 and so on."""
    return known_names(model) or default_names(model.encoder.n_features)
