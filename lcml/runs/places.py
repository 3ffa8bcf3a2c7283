"""Where circuits lie: the views of a model's parts, and the vtree of each."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lcml.circuits import vtree as vtrees
from lcml.circuits.views import View
from lcml.circuits.vtree import Vtree
from lcml.errors import DataError, SettingsError
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoding import Encoder
from lcml.learning.state import EncodedSet
from lcml.runs.config import VtreeKind
from lcml.runs.specs import Shape, ViewSpec, full_shape

_MOST_FOR_INFORMATION = 512
"""Variables up to which a table's automatic vtree comes from mutual information: its cost grows with the square."""

_EXAMPLES_FOR_INFORMATION = 16384
"""Examples that tell mutual information well enough: its standard error is then below 0.01."""


def choose_places(
    views: Sequence[ViewSpec], encoder: Encoder, shape: Shape | None, whole: Callable[[], Vtree]
) -> tuple[tuple[View, Vtree], ...]:
    """The view and vtree of every part, in the order of `views`; SettingsError where one does not fit, or where two
    parts would be the same: they would share their weights out, and nothing be gained."""
    seen = encoder.output_shape or shape
    of_patches = encoder.of_patches if isinstance(encoder, ChannelEncoder) else range(0)
    if of_patches and not any(spec.patches for spec in views):
        raise SettingsError("patches: no view reads them; give --view patches as well, or leave --patches out")
    made = [(spec, place) for spec in views for place in spec.places(seen, encoder.channels, whole, of_patches)]
    first: dict[tuple[bytes | bool, ...], ViewSpec] = {}
    for spec, (view, vtree) in made:
        arrays = view.index, view.cell_start, view.position_weight, vtree.left, vtree.right, vtree.variable
        before = first.setdefault((view.root, *(array.tobytes() for array in arrays)), spec)
        if before is not spec:
            raise SettingsError(
                f"view: expected circuits that differ, found {before.text!r} and {spec.text!r}, which read the same in "
                "the same way; drop one, or shift its vtree (offset=1)"
            )
    return tuple(place for _, place in made)


def choose_vtree(
    kind: VtreeKind | Vtree,
    image_shape: Sequence[int] | None,
    train: EncodedSet,
    offset: tuple[int, int] = (0, 0),
    seed: int = 0,
    blocks: NDArray[np.intp] | None = None,
) -> Vtree:
    """The vtree of that kind over all variables, for encoded training examples, where they are images of that shape;
    mutual information is that given the class, over a sample of many examples. All keep the variables of each of the
    encoder's `blocks` together, right-linear. A vtree is taken as it is, or, where it is over the blocks, with these in
    place of its leaves.

    Raises DataError for a grid or an offset of what is no image, SettingsError for a vtree that does not fit.
    """
    n_variables = train.values.shape[1]
    n_blocks = n_variables if blocks is None else len(blocks) - 1
    if isinstance(kind, Vtree):
        if kind.n_variables not in (n_variables, n_blocks):
            or_columns = "" if n_blocks == n_variables else f" or the {n_blocks} columns"
            expected = f"expected one over the {n_variables} variables{or_columns}"
            raise SettingsError(f"vtree: {expected}, found one over {kind.n_variables}")
        return kind if blocks is None or kind.n_variables == n_variables else vtrees.over_blocks(kind, blocks)
    if image_shape is None and (kind == "grid" or offset != (0, 0)):
        raise DataError(
            "the vtree grid and vtree_offset are for images, but these data have no image shape; choose another vtree"
        )
    if kind == "auto":
        few = n_variables <= _MOST_FOR_INFORMATION
        kind = "grid" if image_shape else "mutual-information" if few else "balanced"
    if kind == "grid":
        assert image_shape is not None
        channels, height, width = full_shape(image_shape)
        return vtrees.grid(height, width, offset, channels)
    if kind == "mutual-information":
        n_examples = len(train.labels)
        n_read = min(n_examples, _EXAMPLES_FOR_INFORMATION)
        rows = np.sort(np.random.default_rng(seed).choice(n_examples, n_read, replace=False))
        weights = None if train.weights is None else train.weights[rows]
        return vtrees.from_mutual_information(train.values[rows], train.labels[rows], weights, blocks=blocks)
    if kind == "random":
        over = vtrees.random(n_blocks, seed)
    else:
        over = vtrees.balanced(n_blocks) if kind == "balanced" else vtrees.right_linear(n_blocks)
    return over if blocks is None else vtrees.over_blocks(over, blocks)
