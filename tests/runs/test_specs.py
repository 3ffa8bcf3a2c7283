"""Short texts for views, augmentation and shapes: what they mean, and what is said of those that mean nothing."""

from typing import NoReturn

import pytest

from lcml.circuits import vtree
from lcml.circuits.views import IdentityView, View, WindowView
from lcml.circuits.vtree import Vtree
from lcml.errors import SettingsError
from lcml.inputs.augmentation import Augmentation
from lcml.runs.specs import ViewSpec, parse_augment, parse_shape, parse_view


def no_vtree() -> NoReturn:
    raise AssertionError("the vtree over all variables is not needed")


def places(text: str, shape: tuple[int, int, int], names: tuple[str, ...] = ()) -> list[tuple[View, Vtree]]:
    return list(parse_view(text).places(shape, names, no_vtree))


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("whole", ViewSpec()),
        (" whole , offset=1x2", ViewSpec(offset=(1, 2))),
        ("window=7", ViewSpec((7, 7))),
        ("window=7,stride=2,padding=1,grid=4,root", ViewSpec((7, 7), (2, 2), (1, 1), (4, 4), True)),
        ("window=5,grid=4,overlap=2x1", ViewSpec((5, 5), grid=(4, 4), overlap=(2, 1))),
        ("root,grid=1x3,window=1x5", ViewSpec((1, 5), grid=(1, 3), root=True)),
        ("window=3,channels=0+2,apart", ViewSpec((3, 3), channels=(0, 2), apart=True)),
        ("window=3,channels=x+", ViewSpec((3, 3), channels=("x+",))),
        ("window=3,channels=root-x++y-+root-grey", ViewSpec((3, 3), channels=("root-x+", "y-", "root-grey"))),
        ("window=3,channels=x++y-+grey+contrast++12", ViewSpec((3, 3), channels=("x+", "y-", "grey", "contrast+", 12))),
        ("whole,channels=t25+t50", ViewSpec(channels=("t25", "t50"))),
    ],
)
def test_a_view_is_read(text: str, spec: ViewSpec) -> None:
    assert parse_view(text) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found '' between commas; expected settings such as 'window=7"),
        ("window=", "found 'window=' between commas"),
        ("grid=4", "expected 'whole', 'patches' or a window, such as .*found neither"),
        ("all", "expected 'whole', 'patches' or a window.*found all"),
        ("whole,window=3", "expected 'whole', 'patches' or a window.*found whole"),
        ("whole,stride=2", "unknown setting 'stride'; choose of offset, channels, apart, root"),
        ("window=3,size=2", "unknown setting 'size'; choose of window, stride"),
        ("window=3,window=4", "window is given twice"),
        ("window=7x7x7", "window: expected a whole number or ROWSxCOLUMNS, found '7x7x7'; for example"),
        ("window=-1", "window: expected a whole number"),
        ("window=3,root=2", "root: expected the word alone, found '2'"),
        ("window=3,channels=0+", r"channels: expected numbers, or names of grey, .* joined by '\+', found '0\+'"),
        ("window=3,channels=blue", "channels: expected numbers, or names"),
        ("window=3,channels=x", "channels: expected numbers, or names"),
    ],
)
def test_what_is_no_view_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"view {text!r}: ".replace("+", r"\+") + f".*{message}"):
        parse_view(text)


def test_a_window_over_all_channels_or_one_part_for_each() -> None:
    ((view, tree),) = places("window=3x2,grid=2,root,offset=0x1", (2, 6, 6))
    assert view == WindowView((2, 6, 6), (3, 2), grid=(2, 2), root=True)
    assert tree.same_as(vtree.grid(3, 2, (0, 1), n_channels=2))
    ((view, _),) = places("window=3,grid=2,overlap=1", (2, 6, 6))
    assert view == WindowView((2, 6, 6), (3, 3), grid=(2, 2), overlap=(1, 1))
    apart = places("window=3,apart", (3, 6, 6))
    assert [view for view, _ in apart] == [WindowView((3, 6, 6), (3, 3), channels=(k,)) for k in range(3)]
    assert all(tree.same_as(vtree.grid(3, 3)) for _, tree in apart)


def test_channels_by_number_and_name() -> None:
    """Two raw images with two channels each: a name is that channel of both."""
    names, shape = ("grey", "x+"), (4, 5, 5)
    ((view, _),) = places("window=2,channels=x+", shape, names)
    assert view == WindowView(shape, (2, 2), channels=(1, 3))
    ((view, _),) = places("window=2,channels=2+x+", shape, names)
    assert view == WindowView(shape, (2, 2), channels=(2, 1, 3))
    apart = places("whole,channels=grey,apart", shape, names)
    assert [view for view, _ in apart] == [WindowView(shape, (5, 5), channels=(k,)) for k in (0, 2)]


def test_the_whole_example_under_the_vtree_chosen_and_under_another() -> None:
    chosen = vtree.balanced(36)
    assert list(parse_view("whole").places(None, (), lambda: chosen)) == [(IdentityView(36), chosen)]
    ((view, tree),) = places("whole,offset=1", (1, 6, 6))
    assert view == IdentityView(36)
    assert tree.same_as(vtree.grid(6, 6, (1, 1)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("window=3,channels=2", "channels: found 2; choose different ones of grey, x., 0 to 1"),
        ("window=3,channels=y-", "channels: found 'y-'; choose different ones"),
        ("window=3,channels=0+grey", "channels: found 'grey'; choose different ones"),
        ("window=9", "window of 9 rows on an image of 6"),
        ("window=3,grid=5", "grid of 5 rows over 4 rows of positions"),
        ("window=3,grid=2,overlap=3", "overlap of 3 rows into cells of 2"),
        ("window=3,stride=0", "stride: expected 2 integers of at least 1"),
    ],
)
def test_a_view_that_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"view {text!r}: ".replace("+", r"\+") + message):
        places(text, (2, 6, 6), ("grey", "x+"))


def test_windows_need_a_shape() -> None:
    with pytest.raises(SettingsError, match=r"view 'window=3': .* no image shape; give one \(--image-shape"):
        list(parse_view("window=3").places(None, (), no_vtree))


def test_augmentation_is_read() -> None:
    assert parse_augment("copies=4,shift=1,cross") == Augmentation(copies=4, shift=1, cross=True)
    found = parse_augment("copies=2,rotation=10.5,scale=.1,shear=5,elastic=1,elastic_spacing=4,flip")
    expected = Augmentation(2, rotation=10.5, scale=0.1, shear=5, elastic=1, elastic_spacing=4, flip=True)
    assert found == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("more", "found 'more'; expected settings such as 'copies=4,shift=1,cross'"),
        ("shift=1,flip", "found no copies; expected settings such as 'copies=4,shift=1,cross'"),
        ("copies=0,flip", "found no copies; expected settings such as"),
        ("copies=4,zoom=2", "unknown setting 'zoom'; choose of copies, shift, cross"),
        ("copies=1.5", "copies: expected a whole number, found '1.5'"),
        ("copies=1,rotation=far", "rotation: expected a number, found 'far'"),
        ("copies=1,scale=2", "scale: expected a number of 0 to 0.9, found 2.0"),
        ("copies=1,rotation=nan", "rotation: expected a number of 0 to 180, found nan"),
    ],
)
def test_what_is_no_augmentation_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"augment {text!r}: {message}"):
        parse_augment(text)


def test_a_shape_is_read() -> None:
    assert parse_shape("28x28") == (1, 28, 28)
    assert parse_shape("3x1x200") == (3, 1, 200)
    for text in ("28", "0x3", "axb", "2x2x2x2", "2x", ""):
        with pytest.raises(SettingsError, match=f"image_shape: expected ROWSxCOLUMNS.*found {text!r}"):
            parse_shape(text)
