"""Every encoder by its kind. A new one: a class that is an `Encoder`, a line here, one in lcml_export.encoding."""

from collections.abc import Mapping

from lcml.errors import FormatError
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoders import PLAIN_ENCODERS
from lcml.inputs.encoding import Encoder, State

ENCODERS: Mapping[str, type[Encoder]] = {
    **PLAIN_ENCODERS,
    ChannelEncoder.kind: ChannelEncoder,
    ColumnsEncoder.kind: ColumnsEncoder,
}


def stored_encoder(kind: str, state: State) -> Encoder:
    """The encoder whose `kind` and `state()` these are; FormatError where they describe none."""
    if kind not in ENCODERS:
        kinds = ", ".join(ENCODERS)
        raise FormatError(f"not an encoder: kind {kind!r}; expected {kinds}, unless the file is newer than this lcml")
    try:
        return ENCODERS[kind].from_state(state)
    except ValueError as error:
        raise FormatError(f"encoder {kind!r}: {error}") from error
