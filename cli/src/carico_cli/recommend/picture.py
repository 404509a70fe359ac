"""A picture of one class: what its Pods use, what they request today, and what is recommended."""

import pathlib
from collections.abc import Mapping
from typing import Any

from carico_cli.output import charts
from carico_cli.recommend import text
from carico_core.domain import amounts, errors

Row = Mapping[str, Any]
# (what, style) of each line; the label names the amount.
_LINES = (("requested", "requested today", "--"), ("requests", "recommended request", "-"), ("limits", "limit", ":"))


def draw(row: Row, path: pathlib.Path) -> None:
    """Write the picture. Raises `SettingsError` where nothing was measured, or the file cannot be written."""
    dims = [dim for dim, found in row["distribution"].items() if found]
    if not dims:
        raise errors.SettingsError(f"--plot: nothing has been measured of {row['class']} yet: wait, and run this again")

    def fill(figure: Any) -> None:
        axes = figure.subplots(1, len(dims), squeeze=False)
        for ax, dim in zip(axes[0], dims, strict=True):
            _panel(ax, row, dim)
            ax.legend(loc="best", fontsize=8)

    title = f"{row['class']}: {amounts.plural(row['pods'], 'Pod')}, confidence {row['confidence']}"
    charts.picture(fill, path, title=title, height_in=3.2)


def cumulated(found: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return amounts, and the share of time in which usage is at most that amount.

    >>> cumulated([(0.1, 3.0), (0.5, 1.0)])
    ([0.0, 0.1, 0.5], [0.0, 0.75, 1.0])
    """
    total = sum(weight for _, weight in found)
    shares, reached = [0.0], 0.0
    for _, weight in found:
        reached += weight
        shares.append(reached / total)
    return [0.0, *(amount for amount, _ in found)], shares


def _panel(ax: Any, row: Row, dim: str) -> None:
    unit = 1.0 if dim == "cpu" else text.MEBIBYTE
    used, shares = cumulated(row["distribution"][dim])
    ax.step([each / unit for each in used], shares, where="post", linewidth=1.5, label="used")
    peak = row["usage"].get(dim, {}).get("peak")
    if peak is not None:
        ax.plot([peak / unit], [1.0], marker="o", linestyle="", label=f"peak, {text.used(dim, peak)}")
    for number, (field, what, style) in enumerate(_LINES, start=2):
        value = row[field].get(dim)
        # A limit that equals the request would hide its line.
        if value is not None and (field != "limits" or value != row["requests"].get(dim)):
            said = f"{what}, {amounts.quantity(dim, value)}"
            ax.axvline(value / unit, color=f"C{number}", linestyle=style, linewidth=1.2, label=said)
    ax.set(
        xlabel="CPU of a Pod, cores" if dim == "cpu" else "memory of a Pod, MiB", ylabel="share of the time",
        xlim=(0.0, None), ylim=(0.0, 1.05),
    )  # fmt: skip
