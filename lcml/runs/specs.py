"""Short texts that say what circuits read and how training images are distorted.

    view      whole | window=7x7,stride=1x1,padding=0x0,grid=4x4,overlap=0x0,root,offset=0x1,channels=0+2,apart
              | patches
    patches   count=256,size=7x7,stride=1x1,grid=4x4,overlap=2x2, the fields of `lcml.inputs.patches.PatchSpec`
    augment   copies=4,shift=1,cross, the fields of `lcml.inputs.augmentation.Augmentation`
    shape     28x28, 3x32x32: (channels,) rows and columns of an example's features; 1x200 is a sequence

One number stands for both rows and columns; a word alone switches something on.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np

from lcml.circuits import vtree as vtrees
from lcml.circuits.views import IdentityView, SelectedView, View, WindowView, window_vtree
from lcml.circuits.vtree import Vtree
from lcml.errors import SettingsError
from lcml.inputs.augmentation import Augmentation
from lcml.inputs.channels import CHANNELS
from lcml.inputs.patches import PatchSpec

Pair: TypeAlias = tuple[int, int]
Shape: TypeAlias = tuple[int, int, int]
"""Channels, rows and columns."""

VIEW_EXAMPLE = "window=7,grid=4,root"
AUGMENT_EXAMPLE = "copies=4,shift=1,cross"
PATCHES_EXAMPLE = "count=256,size=7,grid=4"

_DIGITS = r"\d{0,8}"  # after the first: no size that fits in memory has more
_CHANNEL = re.compile("|".join(map(re.escape, sorted(CHANNELS, key=len, reverse=True))) + rf"|\d{_DIGITS}")


@dataclass(frozen=True)
class ViewSpec:
    """One `view`: a window that slides over the image, or with `window` None the whole example.

    offset: by which the grid of the vtree is shifted; channels: numbers, and names of `lcml.inputs.channels`, each of
    which stands for that channel of every raw image; None for all; apart: a part for every channel instead of one over
    all; patches: what patches say, instead of windows. The others are those of `lcml.circuits.views.WindowView`; text:
    what it was read from.
    """

    window: Pair | None = None
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    grid: Pair = (1, 1)
    root: bool = False
    offset: Pair = (0, 0)
    channels: tuple[int | str, ...] | None = None
    apart: bool = False
    overlap: Pair = (0, 0)
    patches: bool = False
    text: str = field(default="", compare=False)

    @property
    def takes_vtree(self) -> bool:
        """Whether it is the whole example, under the vtree chosen for that."""
        return self == ViewSpec()

    def places(
        self,
        shape: Shape | None,
        channels: Sequence[str],
        whole: Callable[[], Vtree],
        of_patches: range = range(0),
    ) -> Iterator[tuple[View, Vtree]]:
        """The view and vtree of every part that the spec makes of encoded images of that shape.

        channels: the names of those that the encoder makes of one raw image, none for a plain encoder; whole: makes the
        vtree over all variables; of_patches: which those are that patches make, behind all channels. Raises
        SettingsError where the spec does not fit.
        """
        if self.takes_vtree:
            vtree = whole()
            yield IdentityView(vtree.n_variables), vtree
            return
        with _naming("view", self.text):
            if self.patches:
                yield self._over_patches(shape, of_patches)
            else:
                yield from self._places(shape, channels, of_patches)

    def _over_patches(self, shape: Shape | None, of_patches: range) -> tuple[View, Vtree]:
        """All of them; both signs of a patch in a cell are next to each other."""
        if shape is None or not of_patches:
            raise SettingsError("there are no patches to read; give --patches as well")
        pairs = np.arange(0, len(of_patches) + 1, 2, dtype=np.intp)
        vtree = vtrees.over_blocks(vtrees.balanced(len(pairs) - 1), pairs)
        return SelectedView(math.prod(shape), tuple(of_patches)), vtree

    def _places(self, shape: Shape | None, channels: Sequence[str], of_patches: range) -> Iterator[tuple[View, Vtree]]:
        if shape is None:
            raise SettingsError(
                "windows, channels and offsets are for images and sequences, but these data have no image shape; "
                "give one (--image-shape 28x28, or 1x200 for a sequence) or leave --view out"
            )
        n_channels = of_patches.start // (shape[1] * shape[2]) if of_patches else shape[0]
        chosen = self._chosen(n_channels, channels)
        if chosen is None and of_patches:
            chosen = tuple(range(n_channels))
        groups: list[tuple[int, ...] | None] = [chosen]
        if self.apart:
            groups = [(channel,) for channel in (range(shape[0]) if chosen is None else chosen)]
        for group in groups:
            window = self.window or (shape[1], shape[2])
            view = WindowView(shape, window, self.stride, self.padding, self.grid, self.root, group, self.overlap)
            same = self.window is None and not self.root and group is None
            yield IdentityView(view.n_variables) if same else view, window_vtree(view, self.offset)

    def _chosen(self, n_channels: int, names: Sequence[str]) -> tuple[int, ...] | None:
        if self.channels is None:
            return None
        chosen: list[int] = []
        for channel in self.channels:
            if isinstance(channel, int):
                found = [channel] if channel < n_channels else []
            else:
                found = [number for number in range(n_channels) if names and names[number % len(names)] == channel]
            if not found or set(found) & set(chosen):
                known = ", ".join([*names, f"0 to {n_channels - 1}"])
                message = f"channels: found {channel!r}; choose different ones of {known} (--channels makes more)"
                raise SettingsError(message)
            chosen += found
        return tuple(chosen)


def parse_view(text: str) -> ViewSpec:
    """The view that `text` says. Raises SettingsError with the culprit, what is expected, and an example."""
    with _naming("view", text):
        words, given = _words_and_settings(text, VIEW_EXAMPLE)
        if words == ["patches"] and not given:
            return ViewSpec(patches=True, text=text)
        is_whole = words == ["whole"] and "window" not in given
        if not is_whole and (words or "window" not in given):
            found = f"found {', '.join(words)}" if words else "found neither"
            raise SettingsError(f"expected 'whole', 'patches' or a window, such as {VIEW_EXAMPLE!r}; {found}")
        known = {name: _VIEW_READERS[name] for name in (_OF_WHOLE if is_whole else _VIEW_READERS)}
        return ViewSpec(**_values(given, known, VIEW_EXAMPLE), text=text)


def parse_patches(text: str) -> PatchSpec:
    """The patches that `text` says. Raises SettingsError as `parse_view` does."""
    with _naming("patches", text):
        words, given = _words_and_settings(text, PATCHES_EXAMPLE)
        if words or "count" not in given:
            found = f"found {', '.join(words)}" if words else "found no count"
            raise SettingsError(f"{found}; expected settings such as {PATCHES_EXAMPLE!r}")
        return PatchSpec(**_values(given, _PATCHES_READERS, PATCHES_EXAMPLE))


def parse_augment(text: str) -> Augmentation:
    """The augmentation that `text` says. Raises SettingsError as `parse_view` does."""
    with _naming("augment", text):
        words, given = _words_and_settings(text, AUGMENT_EXAMPLE)
        if words:
            raise SettingsError(f"found {words[0]!r}; expected settings such as {AUGMENT_EXAMPLE!r}")
        augmentation = Augmentation(**_values(given, _AUGMENT_READERS, AUGMENT_EXAMPLE))
        if not augmentation.copies:
            raise SettingsError(f"found no copies; expected settings such as {AUGMENT_EXAMPLE!r}")
        return augmentation


def parse_shape(text: str) -> Shape:
    """The image shape that `text` says; one channel where it names none. Raises SettingsError where it says none."""
    if not re.fullmatch(rf"[1-9]{_DIGITS}(x[1-9]{_DIGITS}){{1,2}}", text):
        raise SettingsError(f"image_shape: expected ROWSxCOLUMNS or CHANNELSxROWSxCOLUMNS as in 1x200, found {text!r}")
    return full_shape([int(size) for size in text.split("x")])


def full_shape(shape: Sequence[int]) -> Shape:
    """(channels, rows, columns) of (rows, columns), or of that itself."""
    channels, height, width = (1, *shape)[-3:]
    return channels, height, width


@contextmanager
def _naming(what: str, text: str) -> Iterator[None]:
    """Errors say which text they are about."""
    try:
        yield
    except SettingsError as error:
        reason = str(error).removeprefix("view: ").removeprefix("augmentation: ").removeprefix("patches: ")
        raise SettingsError(f"{what} {text!r}: {reason}") from error


def _words_and_settings(text: str, example: str) -> tuple[list[str], dict[str, str]]:
    """The words that stand alone and mean no switch, and the settings by name; a switch that stands alone is ''."""
    words, given = [], {}
    for item in text.split(","):
        name, is_setting, value = (part.strip() for part in item.partition("="))
        if not name or (is_setting and not value):
            raise SettingsError(f"found {item!r} between commas; expected settings such as {example!r}")
        if name in given or name in words:
            raise SettingsError(f"{name} is given twice; drop one")
        if is_setting or _flag in (_VIEW_READERS.get(name), _AUGMENT_READERS.get(name)):
            given[name] = value
        else:
            words.append(name)
    return words, given


def _values(given: Mapping[str, str], readers: Mapping[str, "_Reader"], example: str) -> dict[str, Any]:
    """What the readers, by the names of settings, make of the texts given."""
    values = {}
    for name, value in given.items():
        if name not in readers:
            raise SettingsError(f"unknown setting {name!r}; choose of {', '.join(readers)}, as in {example!r}")
        try:
            values[name] = readers[name](value)
        except ValueError as error:
            raise SettingsError(f"{name}: expected {error}, found {value!r}; for example {example!r}") from error
    return values


def _pair(text: str) -> Pair:
    if not re.fullmatch(rf"\d{_DIGITS}(x\d{_DIGITS})?", text):
        raise ValueError("a whole number or ROWSxCOLUMNS")
    rows, _, columns = text.partition("x")
    return int(rows), int(columns or rows)


def _integer(text: str) -> int:
    if not re.fullmatch(rf"\d{_DIGITS}", text):
        raise ValueError("a whole number")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


def _flag(text: str) -> bool:
    if text:
        raise ValueError("the word alone")
    return True


def _channels(text: str) -> tuple[int | str, ...]:
    """Numbers and names joined by '+', which is the end of some names too."""
    found: list[int | str] = []
    place = 0
    while match := _CHANNEL.match(text, place):
        found.append(int(match[0]) if match[0].isdecimal() else match[0])
        place = match.end() + 1
        if text[match.end() : place] != "+":
            break
    if place != len(text) + 1:
        raise ValueError(f"numbers, or names of {', '.join(CHANNELS)}, joined by '+'")
    return tuple(found)


_Reader: TypeAlias = Callable[[str], Any]
_VIEW_READERS: Mapping[str, _Reader] = {
    **dict.fromkeys(("window", "stride", "padding", "grid", "overlap", "offset"), _pair),
    **dict.fromkeys(("apart", "root"), _flag),
    "channels": _channels,
}
_PATCHES_READERS: Mapping[str, _Reader] = {
    "count": _integer,
    **dict.fromkeys(("size", "stride", "grid", "overlap"), _pair),
}
_OF_WHOLE = ("offset", "channels", "apart", "root")
_AUGMENT_READERS: Mapping[str, _Reader] = {
    part.name: {int: _integer, float: _number, bool: _flag}[type(part.default)] for part in fields(Augmentation)
}
