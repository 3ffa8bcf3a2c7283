"""Views: which encoded inputs a circuit's variables read, at which positions, and how flows are pooled over positions.

    identity  one position; variable v is input v
    selected  one position; variable v is a chosen input, which several variables may read
    window    variable (channel, row, column) of a window reads the image at the window's place; the window slides

A feature of a circuit under a view is, per cell, the weighted mean of its flow over the positions of that cell,
square-rooted where the view says so; every cell has weights of its own in the model. It is linear in the flows before
the root and does not depend on the model's weights, so learning these stays convex.
"""

from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, TypeAlias

import numpy as np

from lcml.arrays import FloatArray, IntArray, frozen, weighted_runs
from lcml.circuits import vtree as vtrees
from lcml.circuits.vtree import Vtree
from lcml.errors import FormatError, SettingsError

Array: TypeAlias = Any
"""An array of the namespace `xp` that is passed beside it."""


@dataclass(frozen=True)
class _Stored:
    """What a model file holds."""

    kind: ClassVar[str]
    grows: ClassVar[bool] = True
    """Whether learning splits elements of a circuit under the view."""

    def as_dict(self) -> dict[str, Any]:
        """The view as plain JSON; `view_from_dict` is the way back."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {"kind": self.kind, **values}


@dataclass(frozen=True)
class _OnePosition(_Stored):
    """One position, and one cell that has it."""

    n_positions: ClassVar[int] = 1
    n_cells: ClassVar[int] = 1
    root: ClassVar[bool] = False

    @cached_property
    def cell_start(self) -> IntArray:
        """(2,): the one cell has the one position."""
        return frozen([0, 1])

    @cached_property
    def position_weight(self) -> IntArray:
        """(1,): it counts once."""
        return frozen([1])

    @cached_property
    def position_share(self) -> FloatArray:
        """(1,): it is all of its cell."""
        return frozen([1], np.float64)


@dataclass(frozen=True)
class IdentityView(_OnePosition):
    """One position at which variable v reads input v. Raises SettingsError for less than one input."""

    n_inputs: int
    kind: ClassVar[str] = "identity"

    def __post_init__(self) -> None:
        _check_integers("n_inputs", (self.n_inputs,), 1, 1)

    @property
    def n_variables(self) -> int:
        return self.n_inputs

    @cached_property
    def index(self) -> IntArray:
        """(1, n_variables): variable v reads input v."""
        return frozen(np.arange(self.n_inputs)[None, :])

    def in_words(self) -> str:
        """What is read, in a line."""
        return "whole"


@dataclass(frozen=True)
class SelectedView(_OnePosition):
    """One position at which variable v reads input inputs[v], or nothing (q = 0) where that is n_inputs.

    Raises SettingsError for an input that is not there.
    """

    n_inputs: int
    inputs: tuple[int, ...]
    kind: ClassVar[str] = "selected"
    grows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_integers("n_inputs", (self.n_inputs,), 1, 1)
        _check_integers("inputs", self.inputs, None, 0)
        if max(self.inputs) > self.n_inputs:
            raise SettingsError(f"view: inputs: expected numbers of at most {self.n_inputs}, found {max(self.inputs)}")

    @property
    def n_variables(self) -> int:
        return len(self.inputs)

    @cached_property
    def index(self) -> IntArray:
        """(1, n_variables): the input that each variable reads, n_inputs for nothing."""
        return frozen(np.array(self.inputs)[None, :])

    def in_words(self) -> str:
        """What is read, in a line."""
        return f"{len({*self.inputs} - {self.n_inputs})} of {self.n_inputs} variables"


@dataclass(frozen=True)
class WindowView(_Stored):
    """A window that slides over an image; a sequence is an image of height 1.

    image_shape (channels, height, width): input c H W + y W + x is pixel (y, x) of channel c
    window, stride, padding (rows, columns): padding is the width of the border around the image, in which q = 0
    grid (rows, columns): the rows of positions are cut into that many runs, the columns likewise, as equal in size as
    possible, the longer ones first; each pair of runs is a cell
    root: whether pooled flows are square-rooted; channels: those that the window reads, None for all
    overlap (rows, columns): with o, a cell reaches o positions into its neighbours, at most through them. The weight of
    row y in a run is how many of the rows y - o, ..., y + o lie in it, rows beyond the border being the outermost; that
    of a position is its row's times its column's. So weights fall in equal steps over the 2 o positions around where
    two cells meet, where runs are as long, and what moves across goes over bit by bit from one to the other.

    Window variables are ordered by channel, then row, then column. Positions are ordered by cell, then row, then
    column; one that several cells have comes once for each. Raises SettingsError where the parts do not fit.
    """

    image_shape: tuple[int, int, int]
    window: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    grid: tuple[int, int] = (1, 1)
    root: bool = False
    channels: tuple[int, ...] | None = None
    overlap: tuple[int, int] = (0, 0)
    kind: ClassVar[str] = "window"

    def __post_init__(self) -> None:
        least = {"image_shape": 1, "window": 1, "stride": 1, "padding": 0, "grid": 1, "overlap": 0}
        for name, bound in least.items():
            _check_integers(name, getattr(self, name), 3 if name == "image_shape" else 2, bound)
        if not isinstance(self.root, bool):
            raise SettingsError(f"view: root: expected true or false, found {self.root!r}")
        for axis, name in enumerate(("rows", "columns")):
            size, window, padding = self.image_shape[1 + axis], self.window[axis], self.padding[axis]
            if window > size + 2 * padding:
                raise SettingsError(
                    f"view: window of {window} {name} on an image of {size} with {padding} of padding on either side; "
                    "use a smaller window or more padding"
                )
            if padding >= window:
                what = f"view: padding of {padding} {name} holds whole windows of {window}"
                raise SettingsError(f"{what}; use less than the window")
            if self.grid[axis] > self.position_grid[axis]:
                what = f"view: grid of {self.grid[axis]} {name} over {self.position_grid[axis]} {name} of positions"
                raise SettingsError(f"{what}; use fewer cells or a smaller stride")
            if self.overlap[axis] and self.grid[axis] == 1:
                raise SettingsError(f"view: overlap of {self.overlap[axis]} {name}, but one cell; give a grid as well")
            least_run = self.position_grid[axis] // self.grid[axis]
            if self.overlap[axis] > least_run:
                what = f"view: overlap of {self.overlap[axis]} {name} into cells of {least_run}"
                raise SettingsError(f"{what}; use a smaller one, or fewer cells")
        if self.channels is not None:
            last = self.image_shape[0] - 1
            _check_integers("channels", self.channels, None, 0)
            if max(self.channels) > last or len(set(self.channels)) < len(self.channels):
                raise SettingsError(f"view: channels: expected different ones of 0 to {last}, found {self.channels}")

    def as_dict(self) -> dict[str, Any]:
        """The view as plain JSON, without an overlap where there is none: so files were before there were overlaps."""
        return {name: value for name, value in super().as_dict().items() if name != "overlap" or any(self.overlap)}

    @property
    def n_inputs(self) -> int:
        channels, height, width = self.image_shape
        return channels * height * width

    @property
    def chosen_channels(self) -> tuple[int, ...]:
        """The channels that the window reads."""
        return tuple(range(self.image_shape[0])) if self.channels is None else self.channels

    @property
    def n_variables(self) -> int:
        return len(self.chosen_channels) * self.window[0] * self.window[1]

    @property
    def position_grid(self) -> tuple[int, int]:
        """Rows and columns of positions."""
        sizes = zip(self.image_shape[1:], self.window, self.stride, self.padding, strict=True)
        rows, columns = ((size + 2 * pad - window) // stride + 1 for size, window, stride, pad in sizes)
        return rows, columns

    @property
    def n_positions(self) -> int:
        """Those of all cells: one that several cells have counts once for each."""
        return int(self.cell_start[-1])

    @property
    def n_cells(self) -> int:
        return self.grid[0] * self.grid[1]

    @cached_property
    def index(self) -> IntArray:
        """(n_positions, n_variables) the input that each variable reads, n_inputs where it lies in the padding."""
        _, height, width = self.image_shape
        corners = self.position_origin[:, :, None]
        rows, columns = (corners[:, axis] + np.arange(size, dtype=np.int32) for axis, size in enumerate(self.window))
        inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
        pixel = np.where(inside, rows[:, :, None] * width + columns[:, None, :], -1)[:, None]
        offset = height * width * np.array(self.chosen_channels)[:, None, None]
        return frozen(np.where(pixel < 0, self.n_inputs, pixel + offset).reshape(self.n_positions, self.n_variables))

    @cached_property
    def cell_start(self) -> IntArray:
        """(n_cells + 1,): cell (i, j) of the grid is number i columns + j and has the positions
        `cell_start[cell]` to `cell_start[cell + 1] - 1`."""
        rows, columns = ([len(of_run) for of_run in runs] for runs in self._runs)
        return frozen(np.concatenate([[0], np.cumsum(np.outer(rows, columns))]))

    @cached_property
    def position_weight(self) -> IntArray:
        """(n_positions,): how often each counts in the mean of its cell; 1 without an overlap."""
        rows, columns = ([list(of_run.values()) for of_run in runs] for runs in self._runs)
        return frozen(np.concatenate([np.outer(*cell).ravel() for cell in product(rows, columns)]))

    @cached_property
    def position_share(self) -> FloatArray:
        """(n_positions,): the part of each in the mean of its cell, its weight of those there."""
        whole = np.add.reduceat(self.position_weight, self.cell_start[:-1])
        return frozen(self.position_weight / np.repeat(whole, np.diff(self.cell_start)), np.float64)

    @cached_property
    def position_origin(self) -> IntArray:
        """(n_positions, 2) row and column of the window's top-left corner in the image; negative in the padding."""
        places = [place for cell in product(*self._runs) for place in product(*cell)]
        return frozen(np.array(places) * self.stride - np.array(self.padding))

    def in_words(self) -> str:
        """What is read and how it is pooled, in a line: "window 7x7, stride 1x1, padding 0x0, grid 4x4, root"."""
        names = "window", "stride", "padding", "grid", *(["overlap"] if any(self.overlap) else [])
        parts = ["{} {}x{}".format(name, *getattr(self, name)) for name in names]
        chosen = [] if self.channels is None else ["channels " + "+".join(map(str, self.channels))]
        return ", ".join([*parts, *chosen, *(["root"] if self.root else [])])

    @property
    def _runs(self) -> tuple[list[dict[int, int]], list[dict[int, int]]]:
        """The rows, and the columns, of positions of each cell, with their weights."""
        rows, columns = map(weighted_runs, self.position_grid, self.grid, self.overlap)
        return rows, columns


@dataclass(frozen=True)
class OneCell(WindowView):
    """One cell of a window's view, as a view of its own: what is not wanted in other cells is not computed there. No
    model file holds one."""

    cell: int = 0

    @property
    def n_cells(self) -> int:
        return 1

    @property
    def _runs(self) -> tuple[list[dict[int, int]], list[dict[int, int]]]:
        """The one run of rows, and of columns, of the cell."""
        (rows, columns), (i, j) = super()._runs, divmod(self.cell, self.grid[1])
        return [rows[i]], [columns[j]]


View: TypeAlias = IdentityView | SelectedView | WindowView

_KINDS: dict[str, Any] = {view.kind: view for view in (IdentityView, SelectedView, WindowView)}


def view_from_dict(content: Any) -> View:
    """The view whose `as_dict` this is; FormatError where it is none."""
    kind = content.get("kind") if isinstance(content, dict) else None
    view = _KINDS.get(kind) if isinstance(kind, str) else None
    if view is WindowView:
        content = {"overlap": [0, 0], **content}
    if view is None or set(content) != {"kind", *(field.name for field in fields(view))}:
        raise FormatError(f"not a view: {content!r}; the model file is damaged or newer than this lcml")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
    del values["kind"]
    try:
        found: View = view(**values)
    except SettingsError as error:
        raise FormatError(str(error)) from error
    return found


def window_vtree(view: WindowView, offset: tuple[int, int] = (0, 0)) -> Vtree:
    """The vtree over a window's variables: `lcml.circuits.vtree.grid` for each channel, joined pair by pair."""
    return vtrees.grid(*view.window, offset, n_channels=len(view.chosen_channels))


def cells_of(view: View) -> list[View]:
    """Views of the cells, one each; the view itself where it has one."""
    if not isinstance(view, WindowView) or view.n_cells == 1:
        return [view]
    of_view = {field.name: getattr(view, field.name) for field in fields(WindowView)}
    return [OneCell(**of_view, cell=cell) for cell in range(view.n_cells)]


def windows(view: WindowView, examples: Array, xp: Any) -> Array:
    """What the circuit's variables read: (n_positions, n_examples, n_variables) of examples (n_examples, n_inputs)."""
    n_examples, (height, width) = examples.shape[0], view.window
    images = xp.reshape(examples, (n_examples, *view.image_shape))
    if view.channels is not None:
        images = xp.stack([images[:, channel, :, :] for channel in view.channels], axis=1)
    row = xp.zeros_like(images[:, :, :1, :])
    images = xp.concat([row] * view.padding[0] + [images] + [row] * view.padding[0], axis=2)
    column = xp.zeros_like(images[:, :, :, :1])
    images = xp.concat([column] * view.padding[1] + [images] + [column] * view.padding[1], axis=3)
    places = (view.position_origin + np.array(view.padding)).tolist()
    read = [images[:, :, y : y + height, x : x + width] for y, x in places]
    return xp.stack([xp.reshape(window, (n_examples, view.n_variables)) for window in read], axis=0)


def _check_integers(name: str, values: Any, count: int | None, least: int) -> None:
    integers = isinstance(values, tuple) and all(type(value) is int for value in values)
    if not integers or not values or (count is not None and len(values) != count) or min(values) < least:
        expected = f"{count} integers" if count is not None else "a tuple of integers"
        raise SettingsError(f"view: {name}: expected {expected} of at least {least}, found {values!r}")
