"""Charts as SVG text: lines with bands, steps, bars and points on two axes. No library: a page must stand alone."""

import dataclasses
import html
import math
from collections.abc import Sequence

WIDTH, HEIGHT = 720.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 14.0, 14.0, 44.0
# Told apart also without colour vision (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a", "#8c510a")


def colour(index: int) -> str:
    """The colour of the n-th series."""
    return COLOURS[index % len(COLOURS)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A series. low, high: a band around it. dash: as in SVG. marks: a dot at each point, `words` beside it."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dash: str = ""
    line: bool = True
    marks: bool = False
    words: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Axes and their series. top: at least this much of y is shown. logarithmic: the x axis. from_zero: the y axis."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    top: float = 0.0
    logarithmic: bool = False
    from_zero: bool = True
    height: float = HEIGHT


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers within [low, high], at most about `most` of them.

    >>> ticks(0.0, 23.0)
    [0.0, 5.0, 10.0, 15.0, 20.0]
    """
    span = max(high - low, 1e-9)
    rough = span / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1.0, 2.0, 5.0, 10.0) if power * each >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


class _Scale:
    """From data to pixels."""

    def __init__(self, chart: Chart) -> None:
        xs = [x for line in chart.lines for x in line.x if math.isfinite(x)]
        ys = [y for line in chart.lines for part in (line.y, line.high, line.low) for y in part if math.isfinite(y)]
        self._chart = chart
        self.x_low, self.x_high = _limits(xs, zero=False, pad=0.02 if not chart.logarithmic else 0.0)
        self.y_low, self.y_high = _limits([*ys, chart.top] if chart.top else ys, zero=chart.from_zero, pad=0.05)
        if chart.logarithmic:
            self.x_low, self.x_high = self.x_low / 1.3, self.x_high * 1.6

    def x(self, value: float) -> float:
        low, high = self.x_low, self.x_high
        if self._chart.logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return self._chart.height - _BOTTOM - share * (self._chart.height - _TOP - _BOTTOM)

    def x_ticks(self) -> list[float]:
        if not self._chart.logarithmic:
            return ticks(self.x_low, self.x_high, 9)
        powers = range(math.floor(math.log10(self.x_low)), math.ceil(math.log10(self.x_high)) + 1)
        found = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        return [each for each in found if self.x_low <= each <= self.x_high]


def _limits(values: Sequence[float], *, zero: bool, pad: float) -> tuple[float, float]:
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    low = min(low, 0.0) if zero else low
    extra = (high - low) * pad or abs(high) * 0.1 or 1.0
    return (low if zero else low - extra), high + extra


def draw(chart: Chart) -> str:
    """The chart as one <svg> element."""
    scale = _Scale(chart)
    parts = [*_frame(chart, scale)]
    for line in chart.lines:
        parts += _band(line, scale)
    for line in chart.lines:
        parts += _line(line, scale)
    height = chart.height + _legend_height(chart)
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{html.escape(chart.title)}">'
        f"{''.join(parts)}{_legend(chart)}</svg>"
    )


def _frame(chart: Chart, scale: _Scale) -> list[str]:
    left, right, bottom = _LEFT, WIDTH - _RIGHT, chart.height - _BOTTOM
    parts = []
    for value in ticks(scale.y_low, scale.y_high):
        y = scale.y(value)
        parts.append(f'<line class="grid" x1="{left:g}" x2="{right:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 6:g}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in scale.x_ticks():
        x = scale.x(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP:g}" y2="{bottom:g}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16:g}" text-anchor="middle">{value:g}</text>')
    middle = (left + right) / 2.0
    parts.append(f'<text x="{middle:g}" y="{bottom + 34:g}" text-anchor="middle">{html.escape(chart.x_label)}</text>')
    y = (_TOP + bottom) / 2.0
    turned = f'text-anchor="middle" transform="rotate(-90 14 {y:g})"'
    parts.append(f'<text x="14" y="{y:g}" {turned}>{html.escape(chart.y_label)}</text>')
    return parts


def _points(xs: Sequence[float], ys: Sequence[float], scale: _Scale) -> list[str]:
    return [
        f"{scale.x(x):.1f},{scale.y(y):.1f}"
        for x, y in zip(xs, ys, strict=True)
        if math.isfinite(x) and math.isfinite(y)
    ]


def _band(line: Line, scale: _Scale) -> list[str]:
    if not line.low:
        return []
    points = _points(line.x, line.low, scale) + _points(line.x, line.high, scale)[::-1]
    return [f'<polygon points="{" ".join(points)}" fill="{line.colour}" opacity="0.18"/>']


def _line(line: Line, scale: _Scale) -> list[str]:
    points = _points(line.x, line.y, scale)
    parts = []
    if line.line and len(points) > 1:
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{line.colour}" stroke-width="1.8"{dash}/>'
        )
    if line.marks:
        parts += [
            f'<circle cx="{x}" cy="{y}" r="3.4" fill="{line.colour}"/>' for x, y in (each.split(",") for each in points)
        ]
    for place, (point, words) in enumerate(zip(points, line.words, strict=False)):
        x, y = map(float, point.split(","))
        # Above and below in turn: neighbours on a curve do not write over each other.
        y += 13.0 if place % 2 else -6.0
        parts.append(f'<text x="{x + 5:.1f}" y="{y:.1f}" class="word" fill="{line.colour}">{html.escape(words)}</text>')
    return parts


_LEGEND_COLUMNS = 3


def _shown(chart: Chart) -> list[Line]:
    return [line for line in chart.lines if line.label]


def _legend_height(chart: Chart) -> float:
    return 18.0 * math.ceil(len(_shown(chart)) / _LEGEND_COLUMNS)


def _legend(chart: Chart) -> str:
    parts = []
    for index, line in enumerate(_shown(chart)):
        x = _LEFT + (index % _LEGEND_COLUMNS) * (WIDTH - _LEFT) / _LEGEND_COLUMNS
        y = chart.height + 8.0 + 18.0 * (index // _LEGEND_COLUMNS)
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        parts.append(
            f'<line x1="{x:.0f}" x2="{x + 22:.0f}" y1="{y - 4:.0f}" y2="{y - 4:.0f}" stroke="{line.colour}" '
            f'stroke-width="3"{dash}/><text x="{x + 28:.0f}" y="{y:.0f}">{html.escape(line.label)}</text>'
        )
    return "".join(parts)


def _short(name: str) -> str:
    """A name that fits beside the bars."""
    return name if len(name) <= _NAME_FITS else f"{name[: _NAME_FITS - 1]}…"


# Of 12 pixels, beside bars that begin at 170.
_NAME_FITS = 22


def bars(title: str, groups: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], label: str) -> str:
    """Horizontal bars: per group one of each series, with its number; a vertical line at 1."""
    row, gap = 11.0, 8.0
    left, right = 170.0, WIDTH - 60.0
    each_height = len(series) * row + gap
    height = len(groups) * each_height + 46.0
    high = max([1.0, *(value for _, values in series for value in values if math.isfinite(value))]) * 1.05
    parts = []
    for place, group in enumerate(groups):
        top = 8.0 + place * each_height
        parts.append(
            f'<text x="{left - 8:g}" y="{top + each_height / 2:.1f}" text-anchor="end">{html.escape(_short(group))}'
            f"<title>{html.escape(group)}</title></text>"
        )
        for index, (_, values) in enumerate(series):
            value = values[place]
            if not math.isfinite(value):
                continue
            y, wide = top + index * row, (right - left) * value / high
            parts.append(
                f'<rect x="{left:g}" y="{y:.1f}" width="{wide:.1f}" height="{row - 2:g}" fill="{colour(index)}"/>'
                f'<text class="word" x="{left + wide + 4:.1f}" y="{y + row - 3:.1f}">{value:.2f}</text>'
            )
    one = left + (right - left) / high
    bottom = 8.0 + len(groups) * each_height
    parts.append(f'<line class="one" x1="{one:.1f}" x2="{one:.1f}" y1="4" y2="{bottom:.1f}"/>')
    parts.append(f'<text x="{left:g}" y="{bottom + 14:.1f}">{html.escape(label)}</text>')
    for index, (name, _) in enumerate(series):
        x = left + index * 180.0
        parts.append(
            f'<rect x="{x:.0f}" y="{bottom + 20:.1f}" width="12" height="9" fill="{colour(index)}"/>'
            f'<text x="{x + 17:.0f}" y="{bottom + 29:.1f}">{html.escape(name)}</text>'
        )
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{html.escape(title)}">{"".join(parts)}</svg>'
    )
