"""Pictures drawn with matplotlib: charts as SVG for a page, in its text colour, in dark mode too; files of --plot."""

import dataclasses
import io
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from carico_cli.output import formats
from carico_core.domain import errors

# Distinguishable without colour vision (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a", "#8c510a")
_WIDTH_IN = 9.0
# Of a picture in a file.
_FORMATS = (".png", ".svg")
# Most characters of a group's name next to its bars.
_NAME_MOST = 28
# A placeholder for the page's text colour, which CSS knows and matplotlib does not.
_INK = "#010203"
# Of every picture. Names may have dollar signs, which would begin a formula.
_STYLE: Any = {"svg.fonttype": "none", "font.family": "sans-serif", "axes.grid": True, "text.parse_math": False}
_PAGE_STYLE: Any = {
    **_STYLE, "font.size": 9.0, "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
    "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _INK, "axes.titlecolor": _INK, "xtick.color": _INK,
    "ytick.color": _INK, "grid.alpha": 0.25, "grid.color": _INK, "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A series. low, high: a band around it. marks: a dot at each point, labelled from `words`."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dashed: bool = False
    line: bool = True
    marks: bool = False
    # Each value holds until the next, as a count does.
    steps: bool = False
    words: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Axes and their series. top: the least upper end of the y axis. from_zero: the y axis begins at zero."""

    x_label: str
    y_label: str
    lines: Sequence[Line]
    title: str = ""
    top: float = 0.0
    from_zero: bool = True
    height_in: float = 3.6


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One figure of each contender. values: None where it is not known. spread: least and most of its runs.

    mark: a value and its name, drawn as a line. unknown: the words where there is no value.
    """

    title: str
    values: Sequence[float | None]
    spread: Sequence[tuple[float, float]] = ()
    mark: tuple[float, str] | None = None
    unknown: str = "not ended"


def colour(index: int) -> str:
    """Return the colour of the n-th series."""
    return COLOURS[index % len(COLOURS)]


def figure(draw: Callable[[Any], None], *, name: str, height_in: float = 3.6) -> str:
    """Return one <svg> element; `draw` receives matplotlib's figure. name: makes its ids unique on the page."""
    out = io.StringIO()
    _save(draw, out, kind="svg", style=_PAGE_STYLE, height_in=height_in)
    # Inline: without prologue, metadata and namespaces, and with ids of its own, since a page has several charts.
    svg = out.getvalue()[out.getvalue().index("<svg") :].replace("xlink:href", "href")
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"|<metadata>.*?</metadata>', "", svg, flags=re.DOTALL)
    prefix = re.sub(r"\W+", "-", name.lower())
    return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{prefix}-", svg).replace(_INK, "currentColor")


def check(path: pathlib.Path) -> None:
    """Check, before any work, that --plot can write a picture there. Raises `SettingsError`."""
    if path.suffix.lower() not in _FORMATS:
        raise errors.SettingsError(f"--plot: got {str(path)!r}, expected a name that ends in {' or '.join(_FORMATS)}")
    if path.is_dir():
        raise errors.SettingsError(f"--plot: got {str(path)!r}, which is a directory; expected a file")
    if not path.parent.is_dir():
        raise errors.SettingsError(f"--plot: got {str(path)!r}, expected a file in a directory that exists")


def picture(draw: Callable[[Any], None], path: pathlib.Path, *, title: str, height_in: float) -> None:
    """Write what `draw` draws into matplotlib's figure. Raises `SettingsError` where the file cannot be written."""

    def titled(drawn: Any) -> None:
        draw(drawn)
        drawn.suptitle(title, fontsize=10)

    try:
        _save(titled, path, kind=path.suffix.lower()[1:], style={**_STYLE, "grid.alpha": 0.3}, height_in=height_in)
    except OSError as error:
        raise errors.SettingsError(f"--plot: {path} cannot be written: {error.strerror}") from None


def _save(draw: Callable[[Any], None], out: Any, *, kind: str, style: Any, height_in: float) -> None:
    # Imported here: it takes half a second, which only a picture needs.
    import matplotlib

    matplotlib.use("svg" if kind == "svg" else "agg")
    from matplotlib import pyplot

    with pyplot.rc_context(style):
        drawn = pyplot.figure(figsize=(_WIDTH_IN, height_in), layout="constrained")
        try:
            draw(drawn)
            drawn.savefig(out, format=kind, metadata={"Date": None} if kind == "svg" else None)
        finally:
            pyplot.close(drawn)


def lines(charts: Sequence[Chart], *, name: str = "") -> str:
    """Return charts below each other as one <svg>. name: as for `figure` (default: the first chart's title)."""

    return figure(
        lambda drawn: draw(drawn, charts),
        name=name or charts[0].title,
        height_in=sum(chart.height_in for chart in charts),
    )


def draw(drawn: Any, charts: Sequence[Chart]) -> None:
    """Draw charts below each other into matplotlib's figure."""
    heights = [chart.height_in for chart in charts]
    every = drawn.subplots(len(charts), squeeze=False, height_ratios=heights)[:, 0]
    for axes, chart in zip(every, charts, strict=True):
        _draw_chart(axes, chart)


def bars(groups: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], label: str, *, name: str) -> str:
    """Return horizontal bars with their numbers: one of each series for each group, and a line at 1."""

    def draw(drawn: Any) -> None:
        axes = drawn.subplots()
        height = 0.8 / len(series)
        for index, (title, values) in enumerate(series):
            places = [place + index * height for place in range(len(groups))]
            shown = [value if math.isfinite(value) else 0.0 for value in values]
            drawn_bars = axes.barh(places, shown, height=0.9 * height, color=colour(index), label=title)
            words = [f"{value:.2f}" if math.isfinite(value) else "" for value in values]
            axes.bar_label(drawn_bars, labels=words, padding=2, fontsize=7)
        axes.axvline(1.0, color=_INK, linewidth=1.0, linestyle="--")
        names = [formats.shortened(group, _NAME_MOST) for group in groups]
        axes.set_yticks([place + 0.4 - height / 2 for place in range(len(groups))], names)
        axes.set_ylim(len(groups), -0.3)
        axes.set_xlabel(label)
        axes.grid(visible=False, axis="y")
        legend(axes)

    return figure(draw, name=name, height_in=0.9 + 0.16 * len(groups) * len(series))


def panels(names: Sequence[str], shown: Sequence[Panel], *, ours: str, name: str) -> str:
    """Return small multiples: next to each other one panel of horizontal bars for each figure, `ours` in its colour."""

    def draw(drawn: Any) -> None:
        every = drawn.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for axes, panel in zip(every, shown, strict=True):
            _draw_panel(axes, names, panel, ours)
        every[0].set_yticks(range(len(names)), [formats.shortened(each, _NAME_MOST) for each in names])
        every[0].set_ylim(len(names) - 0.4, -0.6)

    return figure(draw, name=name, height_in=1.2 + 0.3 * len(names))


def _draw_panel(axes: Any, names: Sequence[str], panel: Panel, ours: str) -> None:
    inks = [colour(0) if each == ours else colour(6) for each in names]
    drawn_bars = axes.barh(range(len(names)), [value or 0.0 for value in panel.values], height=0.66, color=inks)
    ends = [most for _, most in panel.spread] or [value or 0.0 for value in panel.values]
    for place, (least, most) in enumerate(panel.spread):
        axes.plot([least, most], [place, place], color=_INK, linewidth=1.2)
    # Next to the bar, and past the line of its spread.
    for bar, value, end in zip(drawn_bars, panel.values, ends, strict=True):
        words = panel.unknown if value is None else formats.number(value)
        axes.annotate(
            words, (end, bar.get_y() + bar.get_height() / 2), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=8,
        )  # fmt: skip
    if panel.mark is not None:
        at, label = panel.mark
        axes.axvline(at, color=colour(2), linewidth=1.4, linestyle="--", label=f"{label} {formats.number(at)}")
    axes.set_xlabel(panel.title)
    axes.set_xlim(0.0, 1.18 * max([*ends, panel.mark[0] if panel.mark else 0.0, 1e-9]))
    axes.grid(visible=False, axis="y")
    axes.set_axisbelow(True)
    legend(axes)


def legend(axes: Any, *, columns: int = 4) -> None:
    """Put a legend above the axes: inside it would cover the data."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(
            loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, fontsize=8, frameon=False, borderaxespad=0.2
        )


def _draw_chart(axes: Any, chart: Chart) -> None:
    for line in chart.lines:
        step = "post" if line.steps else None
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.18, linewidth=0, step=step)
        style = ("--" if line.dashed else "-") if line.line else "none"
        axes.plot(
            line.x, line.y, color=line.colour, linestyle=style, marker="o" if line.marks else "", markersize=4.5,
            linewidth=1.5, label=line.label or "_", drawstyle="steps-post" if line.steps else "default",
        )  # fmt: skip
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    if chart.title:
        axes.set_title(chart.title, loc="right", fontsize=9)
    axes.margins(x=0.04, y=0.08)
    if chart.from_zero:
        axes.set_ylim(bottom=0.0)
    if chart.top:
        axes.set_ylim(top=max(axes.get_ylim()[1], chart.top))
    legend(axes, columns=3)
    _write_words(axes, chart.lines)


# Positions of a label relative to its point, in points, the best first.
_PLACES = tuple(
    (x, y, side) for distance in (5, 14, 24, 34) for x, y, side in (
        (5, distance - 2, "left"), (5, -distance - 5, "left"), (-5, distance - 2, "right"), (-5, -distance - 5, "right")
    )
)  # fmt: skip


def _write_words(axes: Any, drawn: Iterable[Line]) -> None:
    """Write each label where it covers no other and stays within the axes, if there is such a position."""
    found = [
        (x, y, words, line.colour)
        for line in drawn
        for x, y, words in zip(line.x, line.y, line.words, strict=False)
        if math.isfinite(x) and math.isfinite(y)
    ]
    if not found:
        return
    axes.figure.draw_without_rendering()
    edge = axes.get_window_extent()
    taken: list[Any] = []
    for x, y, words, ink in found:
        text = axes.annotate(words, (x, y), xytext=(0, 0), textcoords="offset points", fontsize=7.5, color=ink)
        boxes = []
        for place in _PLACES:
            _put(text, *place)
            box = text.get_window_extent()
            hidden = sum(box.overlaps(other) for other in taken)
            outside = box.x0 < edge.x0 or box.x1 > edge.x1 or box.y0 < edge.y0 or box.y1 > edge.y1
            boxes.append((hidden + 10 * outside, place, box))
            if not boxes[-1][0]:
                break
        _, place, box = min(boxes, key=lambda each: each[0])
        _put(text, *place)
        taken.append(box)


def _put(text: Any, x: float, y: float, side: str) -> None:
    text.set_position((x, y))
    text.set_horizontalalignment(side)
