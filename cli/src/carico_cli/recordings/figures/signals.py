"""The capacity signal of a node whose own usage stays while its peers take work: figure 4.6."""

from typing import Any

import numpy as np

from carico_cli.output import charts
from carico_cli.recordings import trace
from carico_cli.recordings.figures import figure, phases
from carico_core.domain import errors, messages

# The signal comes once a second and varies; what peers do lasts longer.
_MEAN_S = 10.0


def of_peers(over: trace.Trace) -> figure.Figure:
    """4.6: the logged signal, by the node's own Pods, with its extremes as means of 10 s."""
    logged = [(each.at_s, each.level) for each in over.evaluations if each.level is not None]
    if not logged:
        raise errors.SettingsError(
            f"--figure 4.6: {over.name} has no signals, expected a log of the author's agent with (remote) lines"
        )
    start_s = float(over.recording.samples.times_s[0])
    times, levels = np.array(logged).T
    times = times - start_s
    found = phases.phases(over)
    at = np.minimum(np.searchsorted(found.times_s, times), len(found.times_s) - 1)
    pods = np.where(found.churning[at], -1, found.pods[at])
    usage = over.recording.samples.values[:, 0]
    return figure.Figure(
        numbers={"signal": [_row(count, times, levels, pods) for count in np.unique(pods[pods >= 0]).tolist()]},
        charts=(
            charts.Chart(
                x_label=figure.SECONDS, y_label="signal", lines=[figure.line("", times, levels, 0)], height_in=2.8
            ),
            charts.Chart(
                x_label=figure.SECONDS, y_label="CPU, unfiltered",
                lines=[figure.line("", found.times_s, usage, 1)], height_in=1.8,
            ),
        ),
    )  # fmt: skip


def _row(count: int, times_s: messages.Array, levels: messages.Array, pods: messages.Array) -> dict[str, Any]:
    chosen = pods == count
    means = []
    for at_s in times_s[chosen].tolist():
        window = (times_s > at_s - _MEAN_S) & (times_s <= at_s)
        if at_s - _MEAN_S >= times_s[0] and chosen[window].all():
            means.append(levels[window].mean())
    return {
        "pods": count,
        "evaluations": int(chosen.sum()),
        "mean": figure.rounded(levels[chosen].mean()),
        "least": figure.rounded(min(means, default=None)),
        "largest": figure.rounded(max(means, default=None)),
    }
