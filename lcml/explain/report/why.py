"""Explanations as drawings: what was looked at in an image, and the way from the baseline to the logit."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.explain.records import Explanation, Place
from lcml.explain.report.charts import placed, waterfall
from lcml.explain.report.drawing import COLOURS, Drawing, Image, Line, Rect, Shape, Text, fitting

PICTURE = 216.0
"""The longer side of an image, in pixels of the page."""

_LEAST_SIDE = 24.0
_MOST_PIXELS = 512
_WIDTH, _WIDTH_BESIDE = 530.0, 860.0
"""Of waterfalls alone, two of which are beside each other on a page, and beside an image, whose words are longer."""

_NUMBERED = 5  # conditions drawn over an image: more hide it


def picture(pixels: NDArray[np.uint8], label: str) -> Drawing:
    """An image (height, width) or (height, width, 3), a large one by every n-th pixel."""
    height, width = pixels.shape[:2]
    scale = PICTURE / max(height, width)
    every = -(-max(height, width) // _MOST_PIXELS)
    found = Drawing(max(width * scale, _LEAST_SIDE), max(height * scale, _LEAST_SIDE), label)
    found.add(Image(0, 0, found.width, found.height, pixels[::every, ::every]))
    return found


def marked(drawing: Drawing, shape: tuple[int, int], places: Iterable[tuple[Place | None, float, str]]) -> Drawing:
    """The drawing of an image of this shape with conditions over it: of each its place, what it adds, and its words.

    Colour says for or against; a window is a frame with a number; a filled square is to be bright, an empty one dark.
    """
    height, width = shape
    x, y = drawing.width / width, drawing.height / height
    for number, (place, added, words) in enumerate(places, start=1):
        if place is None:
            continue
        colour, title = "plus" if added > 0 else "minus", f"{number}: {added:+.3f} {words}"
        for pixel in place.pixels:
            wide, high = pixel.side * x, pixel.side * y
            square = pixel.column * x + wide / 6, pixel.row * y + high / 6, wide * 2 / 3, high * 2 / 3
            fill, stroke = (colour, None) if pixel.bright else (None, colour)
            drawing.add(Rect(*square, fill, stroke, 0.85, f"{title} [{pixel.channel} {pixel.row},{pixel.column}]"))
        if place.is_window:
            left, top = max(place.column, 0) * x, max(place.row, 0) * y
            right = min(place.column + place.width, width) * x
            bottom = min(place.row + place.height, height) * y
            drawing.add(Rect(left, top, right - left, bottom - top, None, colour, title=title))
            drawing.add(Text(left + 2, top + 9, str(number), fill=colour, size=9.0))
    return drawing


def over(drawing: Drawing, values: FloatArray, most: float) -> Drawing:
    """The drawing with values (height, width) laid over it: the colours of plus and minus, opaque at `most`."""
    rgba = np.zeros((*values.shape, 4), np.uint8)
    for sign, name in ((1, "plus"), (-1, "minus")):
        rgba[sign * values > 0, :3] = [int(COLOURS[name][i : i + 2], 16) for i in (1, 3, 5)]
    rgba[..., 3] = np.rint(255 * np.minimum(np.abs(values) / (most or 1.0), 1.0))
    every = -(-max(values.shape) // _MOST_PIXELS)
    drawing.add(Image(0, 0, drawing.width, drawing.height, rgba[::every, ::every]))
    return drawing


def marks(found: Explanation) -> list[tuple[Place | None, float, str]]:
    """The strongest contributions, as `marked` takes them."""
    return [(part.place, part.contribution, part.condition) for part in found.contributions[:_NUMBERED]]


def why(found: Explanation, title: str, image: NDArray[np.uint8] | None = None) -> Drawing:
    """The explanation under its title: over the image, where there is one, and as a waterfall."""
    n_numbered = 0 if image is None else _NUMBERED
    numbers = [f"{i}  " if i <= n_numbered else "" for i in range(1, len(found.contributions) + 1)]
    parts = zip(numbers, found.contributions, strict=True)
    steps = [(number + _corner(part.place) + part.condition, part.contribution) for number, part in parts]
    end = f"logit of {found.label}" + ("" if found.against is None else f" less {found.against}")
    steps.append(("all else", found.rest))
    fall = waterfall(title, ("baseline", found.baseline), steps, end, _WIDTH if image is None else _WIDTH_BESIDE)
    top, left = 28.0, 0.0
    shapes: list[Shape] = []
    whole = Drawing(fall.width, fall.height + top + 6, f"{title}: {in_words(found)}")
    if image is not None:
        drawn = marked(picture(image, title), (image.shape[0], image.shape[1]), marks(found))
        left = drawn.width + 16
        shapes = placed(drawn.shapes, 8, top)
        whole.width, whole.height = fall.width + left, max(whole.height, drawn.height + top + 8)
    whole.add(Text(8, 18, fitting(title, whole.width - 16, 13.0), size=13.0, title=title), *shapes)
    whole.add(Line([(8, top - 4), (whole.width - 8, top - 4)], "rule"))
    whole.add(*placed(fall.shapes, left, top))
    return whole


def _corner(place: Place | None) -> str:
    """Where a window's pixel [0,0] is in the image, of conditions on windows."""
    return f"at {place.row},{place.column}: " if place is not None and place.is_window else ""


def in_words(found: Explanation, top: int = _NUMBERED) -> str:
    """The strongest contributions in a sentence, for those who do not see the drawing."""
    told: Sequence[str] = [f"{part.condition} {part.contribution:+.3f}" for part in found.contributions[:top]]
    return f"logit {found.logit:+.3f} = baseline {found.baseline:+.3f}, " + ", ".join([*told, "and the rest"])
