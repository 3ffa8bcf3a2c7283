"""Views: what each variable reads and which positions share a cell, by hand and by plain loops."""

import json
from dataclasses import replace
from itertools import product
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcml.circuits.views import IdentityView, View, WindowView, cells_of, view_from_dict, window_vtree, windows
from lcml.errors import FormatError, SettingsError


@st.composite
def window_views(draw: st.DrawFn) -> WindowView:
    """Any view that fits: windows with and without padding, strides, grids and chosen channels."""
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6)))
    window, padding, stride, grid = [], [], [], []
    for size in shape[1:]:
        window.append(draw(st.integers(1, size + 1)))
        least = (max(0, window[-1] - size) + 1) // 2
        padding.append(draw(st.integers(least, max(least, window[-1] - 1))))
        stride.append(draw(st.integers(1, 3)))
        positions = (size + 2 * padding[-1] - window[-1]) // stride[-1] + 1
        grid.append(draw(st.integers(1, positions)))
    chosen = draw(st.none() | st.permutations(range(shape[0])).map(lambda order: tuple(order[: 1 + len(order) // 2])))
    root = draw(st.booleans())
    return WindowView(shape, tuple(window), tuple(stride), tuple(padding), tuple(grid), root, chosen)  # type: ignore[arg-type]


def runs_by_shifting(n: int, n_runs: int, overlap: int) -> list[dict[int, int]]:
    """Weights of the rows of each run: how often it meets the row where rows are shifted by up to `overlap`."""
    found = []
    for run in np.array_split(np.arange(n), n_runs):
        weights: dict[int, int] = {}
        for row in range(n):
            for shift in range(-overlap, overlap + 1):
                if min(max(row + shift, 0), n - 1) in run:
                    weights[row] = weights.get(row, 0) + 1
        found.append(weights)
    return found


def reads_by_loops(view: WindowView) -> list[list[int]]:
    """For each position, cell by cell as numpy.array_split cuts them: the input of each variable."""
    channels, height, width = view.image_shape
    spans = [
        np.array_split(np.arange(-view.padding[a], size + view.padding[a] - view.window[a] + 1, view.stride[a]), cells)
        for a, (size, cells) in enumerate(zip((height, width), view.grid, strict=True))
    ]
    result = []
    for rows in spans[0]:
        for columns in spans[1]:
            for top in rows:
                for left in columns:
                    inputs = []
                    for channel in range(channels) if view.channels is None else view.channels:
                        for y in range(top, top + view.window[0]):
                            for x in range(left, left + view.window[1]):
                                inside = 0 <= y < height and 0 <= x < width
                                inputs.append(
                                    (channel * height + y) * width + x if inside else channels * height * width
                                )
                    result.append(inputs)
    return result


def test_windows_by_hand() -> None:
    # 2 x 3 pixels 0 1 2 / 3 4 5 of channel 0 and 6 7 8 / 9 10 11 of channel 1
    view = WindowView((2, 2, 3), (2, 2))
    assert view.index.tolist() == [[0, 1, 3, 4, 6, 7, 9, 10], [1, 2, 4, 5, 7, 8, 10, 11]]
    assert view.cell_start.tolist() == [0, 2]
    assert (view.n_inputs, view.n_variables, view.n_positions, view.n_cells) == (12, 8, 2, 1)
    one = WindowView((2, 2, 3), (1, 2), stride=(1, 2), padding=(0, 1), channels=(1,))
    assert one.index.tolist() == [[12, 6], [7, 8], [12, 9], [10, 11]]
    assert one.position_origin.tolist() == [[0, -1], [0, 1], [1, -1], [1, 1]]
    assert one.n_variables == 2


def test_positions_are_sorted_by_cell() -> None:
    # 3 x 5 positions on a 2 x 2 grid: rows 2 + 1, columns 3 + 2
    view = WindowView((1, 3, 5), (1, 1), grid=(2, 2))
    assert view.cell_start.tolist() == [0, 6, 10, 13, 15]
    assert view.index[:, 0].tolist() == [0, 1, 2, 5, 6, 7, 3, 4, 8, 9, 10, 11, 12, 13, 14]


def test_cells_that_overlap_by_hand() -> None:
    # 7 positions in two runs, of 4 and 3, that reach one position into each other
    view = WindowView((1, 1, 7), (1, 1), grid=(1, 2), overlap=(0, 1))
    assert view.cell_start.tolist() == [0, 5, 9]
    assert view.index[:, 0].tolist() == [0, 1, 2, 3, 4, 3, 4, 5, 6]
    assert view.position_weight.tolist() == [3, 3, 3, 2, 1, 1, 2, 3, 3]
    assert view.position_share.tolist() == [3 / 12, 3 / 12, 3 / 12, 2 / 12, 1 / 12, 1 / 9, 2 / 9, 3 / 9, 3 / 9]
    assert view.in_words() == "window 1x1, stride 1x1, padding 0x0, grid 1x2, overlap 0x1"
    # two by three pixels: the weights of rows times those of columns
    both = WindowView((1, 2, 3), (1, 1), grid=(2, 1), overlap=(1, 0), padding=(0, 0))
    assert both.index[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]
    assert both.position_weight.tolist() == [2, 2, 2, 1, 1, 1, 1, 1, 1, 2, 2, 2]


@given(window_views(), st.integers(0, 3), st.integers(0, 3))
def test_weights_of_cells_that_overlap_match_loops(view: WindowView, rows: int, columns: int) -> None:
    runs = [size // cells if cells > 1 else 0 for size, cells in zip(view.position_grid, view.grid, strict=True)]
    overlap = min(rows, runs[0]), min(columns, runs[1])
    view = replace(view, overlap=overlap)
    once = replace(view, grid=(1, 1), overlap=(0, 0))
    place = {tuple(origin): number for number, origin in enumerate(once.position_origin.tolist())}
    of_axes = [runs_by_shifting(*axis) for axis in zip(view.position_grid, view.grid, overlap, strict=True)]
    for cell, (of_rows, of_columns) in enumerate(product(*of_axes)):
        some = slice(*view.cell_start[cell : cell + 2].tolist())
        numbers = [place[tuple(origin)] for origin in view.position_origin[some].tolist()]
        expected = {y * view.position_grid[1] + x: v * w for y, v in of_rows.items() for x, w in of_columns.items()}
        assert dict(zip(numbers, view.position_weight[some].tolist(), strict=True)) == expected
        np.testing.assert_array_equal(view.index[some], once.index[numbers])
    # over all cells a position counts as often as another, so that nothing is lost between cells
    total = np.bincount([place[tuple(origin)] for origin in view.position_origin.tolist()], view.position_weight)
    assert (total == (2 * overlap[0] + 1) * (2 * overlap[1] + 1)).all()


def test_files_of_views_without_overlap() -> None:
    """They stay as they were."""
    assert "overlap" not in WindowView((1, 4, 4), (2, 2), grid=(2, 2)).as_dict()
    view = WindowView((1, 4, 4), (2, 2), grid=(2, 2), overlap=(1, 0))
    assert view.as_dict()["overlap"] == [1, 0]
    assert view_from_dict(view.as_dict()) == view


def test_a_sequence_is_an_image_of_height_1() -> None:
    view = WindowView((1, 1, 5), (1, 3), grid=(1, 3))
    assert view.index.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_the_identity() -> None:
    view = IdentityView(3)
    assert (view.n_variables, view.n_positions, view.n_cells, view.root) == (3, 1, 1, False)
    assert view.index.tolist() == [[0, 1, 2]]
    assert view.cell_start.tolist() == [0, 1]


@given(window_views(), st.integers(0, 99))
def test_index_cells_and_windows_match_loops(view: WindowView, seed: int) -> None:
    reads = reads_by_loops(view)
    assert view.index.dtype == view.cell_start.dtype == np.int32
    assert view.index.tolist() == reads
    assert view.n_positions == len(reads)
    sizes = [
        len(rows) * len(columns)
        for rows in np.array_split(np.arange(view.position_grid[0]), view.grid[0])
        for columns in np.array_split(np.arange(view.position_grid[1]), view.grid[1])
    ]
    assert np.diff(view.cell_start).tolist() == sizes
    examples = np.random.default_rng(seed).random((2, view.n_inputs))
    padded = np.concatenate([examples, np.zeros((2, 1))], axis=1)
    expected = [[[example[i] for i in inputs] for example in padded] for inputs in reads]
    assert windows(view, examples, np).tolist() == expected


def test_no_numpy_slips_into_another_librarys_arrays() -> None:
    view = WindowView((2, 4, 5), (2, 3), padding=(1, 1), grid=(2, 3), root=True, channels=(1, 0))
    device = array_api_strict.Device("device1")
    cpu = array_api_strict.Device("CPU_DEVICE")
    examples = np.random.default_rng(0).random((3, view.n_inputs))
    strict = windows(view, array_api_strict.asarray(examples, device=device), array_api_strict)
    assert strict.device == device
    host = np.asarray(array_api_strict.from_dlpack(strict, device=cpu)._array)
    np.testing.assert_allclose(host, windows(view, examples, np), rtol=1e-12)


@given(window_views())
def test_views_come_back_from_json(view: WindowView) -> None:
    again = view_from_dict(json.loads(json.dumps(view.as_dict())))
    assert again == view
    assert view_from_dict(json.loads(json.dumps(IdentityView(7).as_dict()))) == IdentityView(7)


def _changed(**values: Any) -> dict[str, Any]:
    return {**WindowView((1, 4, 4), (2, 2)).as_dict(), **values}


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"kind": "identity"},
        {"kind": "identity", "n_inputs": 0},
        {"kind": "identity", "n_inputs": 2, "more": 1},
        {"kind": ["window"]},
        {"kind": "spiral", "n_inputs": 2},
        _changed(window=[5, 2]),
        _changed(window=2),
        _changed(window=[2, 2.0]),
        _changed(stride=[True, 1]),
        _changed(root=1),
        _changed(channels=[]),
        _changed(channels=[[0]]),
    ],
)
def test_nonsense_is_no_view(content: Any) -> None:
    with pytest.raises(FormatError, match="view"):
        view_from_dict(content)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"window": (5, 2)}, "window of 5 rows on an image of 4 with 0 of padding"),
        ({"window": (2, 9), "padding": (0, 1)}, "window of 9 columns on an image of 6 with 1 of padding"),
        ({"padding": (0, 2)}, "padding of 2 columns holds whole windows of 2"),
        ({"grid": (4, 1)}, "grid of 4 rows over 3 rows of positions"),
        ({"stride": (1, 3), "grid": (1, 3)}, "grid of 3 columns over 2 columns of positions"),
        ({"grid": (2, 1), "overlap": (2, 0)}, "overlap of 2 rows into cells of 1; use a smaller one, or fewer cells"),
        ({"grid": (2, 1), "overlap": (0, 1)}, "overlap of 1 columns, but one cell; give a grid as well"),
        ({"overlap": (0, -1)}, "overlap: expected 2 integers of at least 0"),
        ({"channels": (0, 2)}, "channels: expected different ones of 0 to 1"),
        ({"channels": (1, 1)}, "channels: expected different ones of 0 to 1"),
        ({"channels": (-1,)}, "channels: expected a tuple of integers of at least 0"),
        ({"stride": (0, 1)}, "stride: expected 2 integers of at least 1"),
        ({"image_shape": (4, 6)}, "image_shape: expected 3 integers"),
        ({"root": "yes"}, "root: expected true or false"),
    ],
)
def test_what_does_not_fit_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        WindowView(**{"image_shape": (2, 4, 6), "window": (2, 2), **values})


def test_vtree_of_several_channels() -> None:
    view = WindowView((4, 5, 5), (1, 2), channels=(3, 0, 1))
    vtree = window_vtree(view)
    assert vtree.n_variables == view.n_variables
    first, last = vtree.left[vtree.root], vtree.right[vtree.root]
    assert [vtree.scope(node).tolist() for node in (first, last)] == [[0, 1, 2, 3], [4, 5]]
    assert vtree.scope(vtree.right[first]).tolist() == [2, 3]
    shifted = window_vtree(WindowView((1, 5, 5), (1, 4)), (0, 1))
    assert {tuple(shifted.scope(n).tolist()) for n in range(shifted.n_nodes) if shifted.height[n] == 1} == {(1, 2)}


def test_views_are_values() -> None:
    views: set[View] = {WindowView((1, 4, 4), (2, 2)), WindowView((1, 4, 4), (2, 2)), IdentityView(3), IdentityView(3)}
    assert len(views) == 2
    assert not WindowView((1, 4, 4), (2, 2)).index.flags.writeable


@pytest.mark.parametrize("overlap", [(0, 0), (1, 1)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_cells_as_views_have_the_positions_of_the_whole(padding: tuple[int, int], overlap: tuple[int, int]) -> None:
    view = WindowView((2, 5, 6), (3, 3), padding=padding, grid=(2, 3), root=True, channels=(1,), overlap=overlap)
    cells = cells_of(view)
    assert [cell.n_cells for cell in cells] == [1] * 6
    assert all(cell.root for cell in cells)
    assert [cell.n_positions for cell in cells] == np.diff(view.cell_start).tolist()
    for name in ("index", "position_origin", "position_weight", "position_share"):
        np.testing.assert_array_equal(np.concatenate([getattr(cell, name) for cell in cells]), getattr(view, name))
    read = windows(view, np.random.default_rng(0).random((2, 60)), np)
    apart = [
        windows(cell, np.random.default_rng(0).random((2, 60)), np) for cell in cells if isinstance(cell, WindowView)
    ]
    np.testing.assert_array_equal(np.concatenate(apart), read)
    assert cells_of(IdentityView(3)) == [IdentityView(3)]
