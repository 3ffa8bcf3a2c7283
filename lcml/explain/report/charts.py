"""Charts as drawings: axes with lines and bars, heat maps, and the way from a baseline to a logit."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor, isfinite, log10

import numpy as np

from lcml.arrays import FloatArray
from lcml.explain.report.drawing import Drawing, Line, Rect, Shape, Text, fitting

_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 12.0, 20.0, 36.0  # room around the axes
_TICK, _GAP = 4.0, 3.0
_TICKS = 5
_DENSITY = 0.25  # of the axes' height, for bars below curves
_CELL = 64.0
_BAR, _ROW = 12.0, 20.0  # of a waterfall


def ticks(low: float, high: float, most: int = _TICKS) -> list[float]:
    """Round numbers within [low, high], at least two where they differ."""
    step = (high - low) / most
    if not (isfinite(step) and step > 0):
        return [low]
    power = 10.0 ** floor(log10(step))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= step * (1 - 1e-9))
    return [round(i * step, 12) for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


class Plot(Drawing):
    """A drawing with axes over ranges of x and y. xticks: places and their texts; else round numbers."""

    def __init__(
        self,
        label: str,
        x: tuple[float, float],
        y: tuple[float, float],
        names: tuple[str, str] = ("", ""),
        xticks: Sequence[tuple[float, str]] | None = None,
        width: float = 340.0,
        height: float = 230.0,
    ) -> None:
        super().__init__(width, height, label)
        self._x, self._y = _wide(*x), _wide(*y)
        self._right, self._bottom = width - _RIGHT, height - _BOTTOM
        for value in ticks(*self._y):
            at = self.at(self._x[0], value)[1]
            self.add(Line([(_LEFT, at), (self._right, at)], "rule"))
            self.add(Text(_LEFT - _TICK, at + 4, f"{value:g}", "end", "muted"))
        if xticks is None:
            xticks = [(value, f"{value:g}") for value in ticks(*self._x)]
        room = (self._right - _LEFT) / max(1, len(xticks))
        for value, text in xticks:
            at = self.at(value, self._y[0])[0]
            self.add(Line([(at, self._bottom), (at, self._bottom + _TICK)], "muted"))
            short = fitting(text, room - _GAP)
            self.add(Text(at, self._bottom + 16, short, "middle", "muted", title=text if short != text else ""))
        middle = (_LEFT + self._right) / 2
        self.add(Text(middle, height - 5, fitting(names[0], self._right - _LEFT), "middle"))
        self.add(Text(12, (_TOP + self._bottom) / 2, names[1], "middle", upward=True))
        self.add(Line([(_LEFT, self._bottom), (self._right, self._bottom)], "muted"))

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Pixels of a point."""
        (left, right), (low, high) = self._x, self._y
        across, up = (x - left) / (right - left), (y - low) / (high - low)
        return _LEFT + across * (self._right - _LEFT), self._bottom - up * (self._bottom - _TOP)

    def line(self, x: FloatArray, y: FloatArray, colour: str, title: str = "", *, dashed: bool = False) -> None:
        """A line through points; a single point is a dot."""
        points = [self.at(*point) for point in zip(x.tolist(), y.tolist(), strict=True)]
        self.add(Line(points, colour, 1.8, dashed, title))
        if len(points) == 1:
            self.dots(x, y, colour, [title])

    def dots(self, x: FloatArray, y: FloatArray, colour: str, titles: Sequence[str]) -> None:
        for point, title in zip(zip(x.tolist(), y.tolist(), strict=True), titles, strict=True):
            across, down = self.at(*point)
            self.add(Rect(across - 2.5, down - 2.5, 5, 5, colour, title=title))

    def step(self, x: float, y: float, half: float, colour: str, title: str) -> None:
        """A short level line around x: the value of a category."""
        left, down = self.at(x - half, y)
        self.add(Line([(left, down), (self.at(x + half, y)[0], down)], colour, 3, title=title))

    def density(self, edges: FloatArray, counts: FloatArray, titles: Sequence[str]) -> None:
        """Pale bars along the x axis, from edges (n + 1,), as high as their counts (n,)."""
        top = max(float(counts.max()), 1.0)
        for left, right, count, title in zip(edges[:-1], edges[1:], counts, titles, strict=True):
            start, stop = self.at(left, 0)[0], self.at(right, 0)[0]
            height = count / top * _DENSITY * (self._bottom - _TOP)
            if count:
                bar = start, self._bottom - height, max(stop - start - 0.5, 0.5), height
                self.add(Rect(*bar, "muted", opacity=0.3, title=title))

    def key(self, names: Sequence[tuple[str, str]]) -> None:
        """Names of series with their colours, at the top, one beside the other."""
        room = (self._right - _LEFT) / len(names)
        for i, (name, colour) in enumerate(names):
            left = _LEFT + i * room
            self.add(Line([(left, _TOP - 12), (left + 12, _TOP - 12)], colour, 3))
            self.add(Text(left + 16, _TOP - 8, fitting(name, room - 24), title=name))


def _wide(low: float, high: float) -> tuple[float, float]:
    """A range that is none made one."""
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def padded(values: FloatArray) -> tuple[float, float]:
    """A range with some room around the values and 0."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    room = 0.08 * (high - low) or 1.0
    return low - room, high + room


def heat_map(
    label: str, values: FloatArray, rows: Sequence[str], columns: Sequence[str], names: tuple[str, str]
) -> Drawing:
    """values (n_rows, n_columns), the first row lowest, by shades of plus and minus, the largest magnitude darkest.

    names: what stands along the columns, and along the rows."""
    n_rows, n_columns = values.shape
    width, height = (min(_CELL, 300 / n) for n in (n_columns, n_rows))
    left, bottom = 80.0, 10 + n_rows * height
    found = Drawing(left + max(n_columns * width, 120) + 10, bottom + 40, label)
    most = float(np.abs(values).max()) or 1.0
    for (i, j), value in np.ndenumerate(values):
        colour, said = "plus" if value > 0 else "minus", f"{rows[i]}, {columns[j]}: {value:+.3f}"
        place = left + j * width, bottom - (i + 1) * height, width, height
        found.add(Rect(*place, colour, opacity=max(0.01, abs(float(value)) / most), title=said))
    for i in _spread(n_rows, height, 14):
        found.add(Text(left - 5, bottom - (i + 0.5) * height + 4, fitting(rows[i], 58), "end", "muted", title=rows[i]))
    for j in _spread(n_columns, width, 60):
        text = fitting(columns[j], 60)
        found.add(Text(left + (j + 0.5) * width, bottom + 14, text, "middle", "muted", title=columns[j]))
    found.add(Rect(left, bottom - n_rows * height, n_columns * width, n_rows * height, stroke="rule"))
    found.add(Text(left + n_columns * width / 2, bottom + 32, fitting(names[0], 250), "middle"))
    found.add(
        Text(12, bottom - n_rows * height / 2, fitting(names[1], max(60, n_rows * height)), "middle", upward=True)
    )
    return found


def _spread(n: int, size: float, room: float) -> range:
    """So many of n labels that each has room."""
    return range(0, n, max(1, ceil(room / size)))


def waterfall(
    label: str, baseline: tuple[str, float], steps: Sequence[tuple[str, float]], end: str, width: float = 640.0
) -> Drawing:
    """From a baseline step by step to its sum with all of them: a bar for each, its words beside it."""
    n = len(steps) + 2
    found = Drawing(width, n * _ROW + 8, label)
    reached = baseline[1] + np.cumsum([0.0, *(value for _, value in steps)])
    low, high = _wide(min(0.0, float(reached.min())), max(0.0, float(reached.max())))
    left, right = 0.56 * width, width - 8

    def across(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    zero = across(0.0)
    found.add(Line([(zero, 2), (zero, n * _ROW)], "rule"))
    rows = [(baseline[0], baseline[1], 0.0, baseline[1])]
    rows += [(text, value, reached[i], reached[i + 1]) for i, (text, value) in enumerate(steps)]
    rows.append((end, float(reached[-1]), 0.0, float(reached[-1])))
    for i, (text, value, start, stop) in enumerate(rows):
        whole, middle = i in (0, n - 1), (i + 0.5) * _ROW + 2
        short = fitting(text, left - 70)
        found.add(Text(left - 62, middle + 4, short, "end", "ink", title=text if short != text else ""))
        found.add(Text(left - 8, middle + 4, f"{value:+.3f}", "end", "muted" if whole else _sign(value)))
        begin, length = min(across(start), across(stop)), abs(across(stop) - across(start))
        colour = "muted" if whole else _sign(value)
        found.add(Rect(begin, middle - _BAR / 2, max(length, 1), _BAR, colour, title=f"{text}: {value:+.4f}"))
        if i < n - 1:
            found.add(Line([(across(stop), middle), (across(stop), middle + _ROW)], "muted", 0.6))
    return found


def _sign(value: float) -> str:
    return "plus" if value > 0 else "minus"


def placed(shapes: Sequence[Shape], x: float, y: float) -> list[Shape]:
    """The shapes moved right by x and down by y."""
    moved: list[Shape] = []
    for shape in shapes:
        if isinstance(shape, Line):
            moved.append(replace(shape, points=[(across + x, down + y) for across, down in shape.points]))
        else:
            moved.append(replace(shape, x=shape.x + x, y=shape.y + y))
    return moved
