"""The panel of the last quarter of an hour: a line for each series, and below what happened, newest first."""

import time
from collections.abc import Sequence

from carico_cli.live import history
from carico_cli.live import picture as pictures
from carico_cli.output import formats
from carico_cli.top.words import spans
from carico_core.domain import messages

_NAME_CELLS, _SPARK_CELLS_MOST = 9, 90
# The text after a line of sparks: what is true now.
_TEXT_CELLS = 40


def lines(picture: pictures.Picture, width: int) -> list[spans.Line]:
    """Return the panel's lines."""
    found = picture.summaries
    if not found:
        return [(("no summary yet: the scheduler that leads writes one every 5 s", "dim"),)]
    cells = max(10, min(width - _NAME_CELLS - _TEXT_CELLS, _SPARK_CELLS_MOST))
    last = found[-1]
    waits = f"{last.waiting}, the first for {formats.duration(last.oldest_s)}" if last.waiting else "none"
    rows = [
        _series("waiting", [float(each.waiting) for each in found], cells, f"{waits} (most {_most(found)})"),
        _series("placed/s", [_rate(each) for each in found], cells, f"{_rate(last):.1f}"),
        _series("Pods", [float(each.pods) for each in found], cells, f"{last.pods}, room for {last.capacity:.0f}"),
    ]
    rows += [_usage(dim, found, cells) for dim in last.usage]
    happened = [_happened(each) for each in reversed(list(history.moments(found)))]
    return rows + (happened or [(("nothing else happened", "dim"),)])


def _series(name: str, values: Sequence[float], cells: int, text: str, *, most: float | None = None) -> spans.Line:
    return (
        (spans.fitted(name, _NAME_CELLS), "bold"),
        (spans.spark(values, cells, most=most).rjust(cells), "cyan"),
        (f" {text}", ""),
    )


def _usage(dim: str, found: Sequence[messages.ClusterSummary], cells: int) -> spans.Line:
    shares = [each.usage[dim].median for each in found if dim in each.usage]
    last = found[-1].usage[dim]
    text = f"{last.median:.0%}, most nodes to {last.high:.0%}"
    return _series("CPU" if dim == "cpu" else spans.clean(dim), shares, cells, text, most=1.0)


def _rate(each: messages.ClusterSummary) -> float:
    return each.placed / each.span_s if each.span_s > 0.0 else 0.0


def _most(found: Sequence[messages.ClusterSummary]) -> int:
    return max(each.waiting for each in found)


def _happened(found: history.Moment) -> spans.Line:
    clock = time.strftime("%H:%M:%S ", time.localtime(found.at_ns / 1e9))
    return ((clock, "dim"), (spans.clean(found.words), "yellow" if found.is_trouble else ""))
