"""Drawings: a few shapes in pixels from the top left, written as SVG, or as PNG by matplotlib.

Colours are names, so that a page can give them other values in the dark: `COLOURS` has those of a bright background,
and 0 to 1 of a colour's opacity makes its shades.
"""

import base64
import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lcml.errors import MissingDependencyError

COLOURS: Mapping[str, str] = {
    "ink": "#1c1e21",
    "muted": "#667079",
    "rule": "#d9dde1",
    "paper": "#ffffff",
    "plus": "#1668b8",
    "minus": "#c4441c",
    "c0": "#1668b8",
    "c1": "#c4441c",
    "c2": "#2b8a4b",
    "c3": "#8250c4",
    "c4": "#a87808",
    "c5": "#0f8a8f",
    "c6": "#c2387e",
    "c7": "#6b6f75",
    "c8": "#5a7d1f",
    "c9": "#8a4b2b",
}
"""What the names of colours mean: plus and minus for what speaks for a class and against it, c0 to c9 for series."""

TEXT_SIZE = 11.0
_CHARACTER = 0.56  # mean width of a character in units of its size
_DPI = 144
_PNG_SCALE = 2.0

Anchor: TypeAlias = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    opacity: float = 1.0
    title: str = ""


@dataclass(frozen=True)
class Line:
    """A polyline through points (x, y)."""

    points: Sequence[tuple[float, float]]
    stroke: str = "ink"
    width: float = 1.0
    dashed: bool = False
    title: str = ""


@dataclass(frozen=True)
class Text:
    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    fill: str = "ink"
    size: float = TEXT_SIZE
    title: str = ""
    upward: bool = False


@dataclass(frozen=True)
class Image:
    """Pixels (height, width), (.., 3) or (.., 4) as bytes, drawn without smoothing."""

    x: float
    y: float
    width: float
    height: float
    pixels: NDArray[np.uint8]


Shape: TypeAlias = Rect | Line | Text | Image


@dataclass
class Drawing:
    """Shapes one upon another. label: what is to be seen, for those who do not see it."""

    width: float
    height: float
    label: str
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        self.shapes += shapes


def fitting(text: str, width: float, size: float = TEXT_SIZE) -> str:
    """The text, cut so that it takes about `width` pixels at most."""
    most = max(1, int(width / (size * _CHARACTER)))
    return text if len(text) <= most else text[: most - 1] + "…"


def svg(drawing: Drawing, colours: Mapping[str, str] | None = None) -> str:
    """The drawing as an element of a page; with `colours` as a file of its own that needs no style sheet."""
    size = f'viewBox="0 0 {_n(drawing.width)} {_n(drawing.height)}" width="{_n(drawing.width)}"'
    size += f' height="{_n(drawing.height)}"'
    label = escape(drawing.label)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" {size} font-size="{TEXT_SIZE:g}"'
    shapes: Sequence[Shape] = drawing.shapes
    if colours is not None:
        head += ' font-family="sans-serif"'
        shapes = [Rect(0, 0, drawing.width, drawing.height, "paper"), *shapes]
    return head + ">" + "".join(_element(shape, colours) for shape in shapes) + "</svg>"


def _element(shape: Shape, colours: Mapping[str, str] | None) -> str:
    def colour(name: str | None) -> str:
        return "none" if name is None else f"var(--{name})" if colours is None else colours[name]

    def closed(tag: str, attributes: str, content: str = "") -> str:
        title = getattr(shape, "title", "")
        content += f"<title>{escape(title)}</title>" if title else ""
        return f"<{tag} {attributes}>{content}</{tag}>" if content else f"<{tag} {attributes}/>"

    if isinstance(shape, Rect):
        place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
        place += f' fill="{colour(shape.fill)}"'
        place += f' stroke="{colour(shape.stroke)}"' if shape.stroke else ""
        return closed("rect", place + (f' opacity="{shape.opacity:.2f}"' if shape.opacity < 1 else ""))
    if isinstance(shape, Line):
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
        drawn = f'points="{points}" fill="none" stroke="{colour(shape.stroke)}" stroke-width="{_n(shape.width)}"'
        return closed("polyline", drawn + (' stroke-dasharray="4 3"' if shape.dashed else ""))
    if isinstance(shape, Text):
        at = f'x="{_n(shape.x)}" y="{_n(shape.y)}" fill="{colour(shape.fill)}"'
        at += f' text-anchor="{shape.anchor}"' if shape.anchor != "start" else ""
        at += f' font-size="{_n(shape.size)}"' if shape.size != TEXT_SIZE else ""
        at += f' transform="rotate(-90 {_n(shape.x)} {_n(shape.y)})"' if shape.upward else ""
        return closed("text", at, escape(shape.text))
    place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
    looks = 'preserveAspectRatio="none" style="image-rendering:pixelated"'
    return f'<image {place} {looks} href="{data_uri(shape.pixels)}"/>'


def png(drawing: Drawing) -> bytes:
    """The drawing as a picture of twice as many pixels, by matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "tracking", "drawing a PNG (SVG and HTML do without)") from error
    points = 72 * _PNG_SCALE / _DPI  # of a pixel of the drawing
    figure = Figure((drawing.width * _PNG_SCALE / _DPI, drawing.height * _PNG_SCALE / _DPI), dpi=_DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    for order, shape in enumerate(drawing.shapes):
        _draw(axes, shape, points, order)
    axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0), aspect="auto")
    axes.axis("off")
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": None})
    return content.getvalue()


def _draw(axes: Any, shape: Shape, points: float, order: int) -> None:
    from matplotlib.patches import Rectangle

    if isinstance(shape, Rect):
        edge, face = (COLOURS[name] if name else "none" for name in (shape.stroke, shape.fill))
        looks: Any = {"alpha": shape.opacity, "linewidth": points, "zorder": order}
        looks |= {"facecolor": face, "edgecolor": edge}
        axes.add_patch(Rectangle((shape.x, shape.y), shape.width, shape.height, **looks))
    elif isinstance(shape, Line):
        style = {"linewidth": shape.width * points, "linestyle": "--" if shape.dashed else "-", "zorder": order}
        axes.plot(*np.transpose(shape.points), color=COLOURS[shape.stroke], **style)
    elif isinstance(shape, Text):
        sides = {"start": "left", "middle": "center", "end": "right"}
        turned = {"rotation": 90, "rotation_mode": "anchor"} if shape.upward else {}
        looks = {"ha": sides[shape.anchor], "va": "baseline", "fontsize": shape.size * points, "zorder": order}
        axes.text(shape.x, shape.y, shape.text.replace("$", r"\$"), color=COLOURS[shape.fill], **looks, **turned)
    else:
        extent = (shape.x, shape.x + shape.width, shape.y + shape.height, shape.y)
        grey = {"cmap": "gray", "vmin": 0, "vmax": 255} if shape.pixels.ndim == 2 else {}
        axes.imshow(shape.pixels, extent=extent, interpolation="nearest", zorder=order, **grey)


def data_uri(pixels: NDArray[np.uint8]) -> str:
    """Pixels (height, width), (.., 3) or (.., 4) as an address that holds the whole PNG."""
    kinds = {1: 0, 3: 2, 4: 6}  # colour types of PNG by the number of samples
    height, width, samples = pixels.shape if pixels.ndim == 3 else (*pixels.shape, 1)
    lines = np.zeros((height, 1 + width * samples), np.uint8)  # a byte for the line's filter: none
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kinds[samples], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _n(value: float) -> str:
    """To a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")
