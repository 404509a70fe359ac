"""How early each listener notices a Pod, and the estimates over bursts of Pods: figures 4.8 and 4.9."""

from typing import Any

import numpy as np

from carico_cli.output import charts
from carico_cli.recordings import engine, fit, trace
from carico_cli.recordings.figures import figure
from carico_core.domain import errors, messages
from carico_core.numerics.estimators import base

# The spike of a creation is looked for from here before the first event to here after the last.
_BEFORE_S, _AFTER_S = 1.0, 0.5
# The share of a spike's height at which it is under way.
_UNDER_WAY = 0.5


def listeners(over: trace.Trace) -> figure.Figure:
    """4.8: when the listeners of containerd and of the API noticed a Pod, and when the CPU's usage rose."""
    lives = _lives(over)
    if not lives or not over.api:
        missing = "no Pod that containerd's events and the API show"
        raise errors.SettingsError(
            f"--figure 4.8: {over.name} has {missing}, expected a log with (cache) and (api) lines of the same Pods"
        )
    rows: list[dict[str, Any]] = []
    for life in lives:
        rows.append(_row("created", life["created"], life["started"], life["api_running"], over))
        rows.append(_row("completed", life["ended"], life["removed"], life["api_terminated"], over))
    return figure.Figure(numbers={"events": rows}, charts=tuple(_around(row, over) for row in rows))


def _lives(over: trace.Trace) -> list[dict[str, float]]:
    """Return the times of the Pods that both listeners show; the API's names and the UIDs are paired in order."""
    kinds = {
        kind: [event.at_s for event in over.recording.events if event.kind.value == kind]
        for kind in ("created", "started", "ended", "removed")
    }
    if not kinds["created"]:
        return []
    # Pods that ran before the log began are reported as running once more.
    ended = [event for event in over.api if not event.running]
    names = {event.pod for event in ended}
    kinds["api_running"] = [event.at_s for event in over.api if event.running and event.pod in names]
    kinds["api_terminated"] = [event.at_s for event in ended]
    return [dict(zip(kinds, times, strict=False)) for times in zip(*kinds.values(), strict=False)]


def _row(what: str, first_s: float, last_s: float, api_s: float, over: trace.Trace) -> dict[str, Any]:
    samples = over.recording.samples
    times, usage = samples.times_s, samples.values[:, 0]
    low, high = np.searchsorted(times, [first_s - _BEFORE_S, last_s + _AFTER_S]).tolist()
    before = int(np.searchsorted(times, first_s))
    row = {
        "what": what,
        "first_s": round(first_s - float(times[0]), 3),
        "containerd_last_s": figure.rounded(last_s - first_s),
        "api_s": figure.rounded(api_s - first_s),
    }
    if before == high:
        # The log has no samples of that time.
        return row | {"spike_s": None, "spike_peak": None, "usage_without": None}
    # A program that ends takes its usage with it: what is left is the level then.
    level = float(np.median(usage[before:high]))
    if low < before:
        level = min(level, float(usage[low:before].mean()))
    peak = before + int(np.argmax(usage[before:high]))
    threshold = level + _UNDER_WAY * (float(usage[peak]) - level)
    rise = peak
    while rise > before and usage[rise - 1] >= threshold:
        rise -= 1
    return row | {
        "spike_s": figure.rounded(times[rise] - first_s),
        "spike_peak": figure.rounded(usage[peak]),
        "usage_without": figure.rounded(level),
    }


def _around(row: dict[str, Any], over: trace.Trace) -> charts.Chart:
    times = figure.times_s(over) - row["first_s"]
    usage = over.recording.samples.values[:, 0]
    last_s = max(row["api_s"], row["containerd_last_s"]) + _BEFORE_S
    shown = (times >= -_BEFORE_S) & (times <= last_s)
    marks = {
        "containerd, first event": 0.0,
        "containerd, last event": row["containerd_last_s"],
        "Kubernetes API": row["api_s"],
    }
    return charts.Chart(
        x_label=f"seconds since containerd's first event of the Pod that was {row['what']}",
        y_label="CPU, unfiltered",
        lines=[
            figure.line("cpu", times[shown], usage[shown], 0),
            *(
                charts.Line(label=label, x=[at_s, at_s], y=[0.0, 1.0], colour=charts.colour(index + 1), dashed=True)
                for index, (label, at_s) in enumerate(marks.items())
            ),
        ],
        height_in=2.8,
    )


def estimates(over: trace.Trace) -> figure.Figure:
    """4.9: the three estimators of the dissertation over bursts of Pods, with its constants."""
    runs = {name: engine.run(over, engine.Setup(estimator=name, constants="logged")) for name in engine.LOGGED}
    numbers: dict[str, Any] = {}
    lines: dict[str, list[charts.Line]] = {"baseline": [], "cost": []}
    for index, (name, run) in enumerate(runs.items()):
        rms = fit.summary(run)["rms"]
        numbers[name] = {"updates": len(run.steps), "rms": rms, "cost": _moments([_cost(step) for step in run.steps])}
        times = np.array([step.at_s for step in run.steps])
        lines["cost"].append(figure.line(name, times, np.array([_cost(step) for step in run.steps]), index))
        if run.steps[-1].estimate.baseline[base.SIGNAL][0]:
            baselines = [step.estimate.baseline[base.SIGNAL][0] for step in run.steps]
            numbers[name]["baseline"] = _moments(baselines)
            lines["baseline"].append(figure.line(name, times, np.array(baselines), index))
    return figure.Figure(
        numbers=numbers,
        charts=(
            *(
                charts.Chart(x_label=figure.SECONDS, y_label=f"{what} (signal)", lines=found, height_in=2.8)
                for what, found in lines.items()
                if found
            ),
            _pods(next(iter(runs.values()))),
        ),
    )


def _pods(run: engine.Run) -> charts.Chart:
    times, pods = np.array([step.at_s for step in run.steps]), np.array([float(step.pods) for step in run.steps])
    return charts.Chart(x_label=figure.SECONDS, y_label="Pods", lines=[figure.line("", times, pods, 6)], height_in=1.8)


def _cost(step: engine.Step) -> float:
    return float(step.estimate.cost[base.SIGNAL][0])


def _moments(values: list[float]) -> dict[str, float | None]:
    """Return the end, and mean and standard deviation of the second half: what it settles on, and how it swings."""
    half: messages.Array = np.array(values[len(values) // 2 :])
    return {
        "end": figure.rounded(values[-1]),
        "mean": figure.rounded(half.mean()),
        "sd": figure.rounded(half.std()),
    }
