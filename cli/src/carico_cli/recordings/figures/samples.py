"""What the samples show by the number of Pods: figures 2.4, 2.5, 4.3, 4.4 and 4.5."""

from typing import Any

import numpy as np

from carico_cli.output import charts
from carico_cli.recordings import sample_words, trace
from carico_cli.recordings.figures import figure, phases
from carico_core.domain import errors, messages
from carico_core.numerics import ewma

# The kernel's mean over 10 s, once every 2 s: avg += (1 - 1677 / 2048) (now - avg) (kernel/sched/psi.c, EXP_10s).
_AVERAGED_S = 2.0
_KEPT = 1677.0 / 2048.0


def pressure(over: trace.Trace) -> figure.Figure:
    """2.4: the growth of `total` in /proc/pressure, in each sample."""
    found = phases.phases(over)
    names = [name for name in figure.columns(over) if name.endswith("pressure")]
    columns = {_resource(name): figure.part(over, name, "2.4") for name in names or [sample_words.PRESSURE]}
    return figure.Figure(
        numbers={name: phases.by_pods(found, column) for name, column in columns.items()},
        charts=tuple(
            _chart(found, f"{name} pressure (share of 100 ms)", {name: column}) for name, column in columns.items()
        ),
    )


def averaged(over: trace.Trace) -> figure.Figure:
    """2.5: `avg10` of the CPU's pressure, computed from its total as the kernel does."""
    found = phases.phases(over)
    now = figure.part(over, sample_words.PRESSURE, "2.5")
    mean = avg10(found.times_s, now)
    level = float(now[found.at(found.most)].mean()) if found.at(found.most).any() else float(now.mean())
    return figure.Figure(
        numbers={
            "avg10": phases.by_pods(found, mean),
            "most_pods": {
                "pods": found.most,
                "pressure": figure.rounded(level),
                "avg10_largest": figure.rounded(mean[found.pods == found.most].max()),
                "samples_reach_90_s": phases.reached_s(found, now, level),
                "avg10_reaches_90_s": phases.reached_s(found, mean, level),
            },
        },
        charts=(_chart(found, "CPU pressure", {"share of 100 ms": now, "avg10": mean}),),
    )


def avg10(times_s: messages.Array, shares: messages.Array) -> messages.Array:
    """Return the kernel's mean over 10 s at each sample, from 0."""
    mean, since_s, passed, values = 0.0, float(times_s[0]), 0.0, []
    before_s = since_s
    for at_s, share in zip(times_s.tolist(), shares.tolist(), strict=True):
        passed += share * (at_s - before_s)
        before_s = at_s
        if at_s - since_s >= _AVERAGED_S:
            now = passed / (at_s - since_s)
            # The kernel catches up on periods in which no task waited.
            for _ in range(round((at_s - since_s) / _AVERAGED_S)):
                mean = _KEPT * mean + (1.0 - _KEPT) * now
            since_s, passed = at_s, 0.0
        values.append(mean)
    return np.array(values)


def utilisation(over: trace.Trace) -> figure.Figure:
    """4.3: utilisation of CPU and memory, unfiltered."""
    found = phases.phases(over)
    columns = {"cpu": figure.part(over, sample_words.UTILISATION, "4.3")}
    if sample_words.MEMORY in figure.columns(over):
        columns["memory"] = figure.part(over, sample_words.MEMORY, "4.3")
    return figure.Figure(
        numbers={
            **{name: phases.by_pods(found, column) for name, column in columns.items()},
            "cpu_reaches_90_s": _answer_s(found, columns["cpu"]),
        },
        charts=(_chart(found, "utilisation", columns),),
    )


def filtered(over: trace.Trace) -> figure.Figure:
    """4.5: the samples after the dynamic EMA."""
    found = phases.phases(over)
    ema = ewma.DynamicEma()
    values = over.recording.samples.values
    smooth = np.array([ema.update(row) for row in values])
    dims = over.recording.facts.dims
    return figure.Figure(
        numbers={
            **{dim: phases.by_pods(found, smooth[:, index]) for index, dim in enumerate(dims)},
            f"{dims[0]}_unfiltered": phases.by_pods(found, values[:, 0]),
            "cpu_reaches_90_s": _answer_s(found, smooth[:, 0]),
        },
        charts=(_chart(found, "filtered usage", {dim: smooth[:, index] for index, dim in enumerate(dims)}),),
    )


def by_bursts(over: trace.Trace) -> figure.Figure:
    """4.4: what a Pod adds to the job's time, and the telemetry, by the Pods of a job."""
    found = phases.phases(over)
    columns = {name: figure.part(over, name, "4.4") for name in (sample_words.UTILISATION, sample_words.PRESSURE)}
    columns["cpu"] = over.recording.samples.values[:, 0]
    rows = []
    for burst in phases.bursts(over, found):
        row: dict[str, Any] = {"pods": burst.pods, "job_s": burst.job_s, "job_s_per_pod": burst.job_s / burst.pods}
        full = found.at(burst.pods)
        full[: burst.first] = full[burst.last :] = False
        if full.any():
            rows.append(row | {name: float(column[full].mean()) for name, column in columns.items()})
    if len(rows) < 2:
        raise errors.SettingsError(
            f"--figure 4.4: {over.name} has {len(rows)} bursts of Pods, expected at least 2: jobs one after the other"
        )
    pods = np.array([row["pods"] for row in rows])
    return figure.Figure(
        numbers={
            "jobs": [{name: figure.rounded(value) for name, value in row.items()} for row in rows],
            "linear_r2": {
                name: figure.rounded(np.corrcoef(pods, [row[name] for row in rows])[0, 1] ** 2) for name in columns
            },
        },
        charts=(
            _by_pods(rows, ("job_s_per_pod",), "seconds of the job's time per Pod"),
            _by_pods(rows, tuple(columns), "share, mean while all Pods run"),
        ),
    )


def _by_pods(rows: list[dict[str, Any]], names: tuple[str, ...], label: str) -> charts.Chart:
    return charts.Chart(
        x_label="Pods of the job",
        y_label=label,
        lines=[
            charts.Line(
                label=name.replace("_", " "),
                x=[row["pods"] for row in rows],
                y=[row[name] for row in rows],
                colour=charts.colour(index),
                marks=True,
            )
            for index, name in enumerate(names)
        ],
    )


def _resource(name: str) -> str:
    # The CPU's column has no name of its resource.
    return name.removesuffix("pressure").strip() or "cpu"


def _answer_s(found: phases.Phases, values: messages.Array) -> float | None:
    """Return how long the values take to reach what they are on average with most Pods."""
    full = found.at(found.most)
    return phases.reached_s(found, values, float(values[full].mean())) if found.most and full.any() else None


def _chart(found: phases.Phases, label: str, series: dict[str, messages.Array]) -> charts.Chart:
    most = max(1.0, *(float(column.max()) for column in series.values()))
    shown = [figure.line(name, found.times_s, column, index) for index, (name, column) in enumerate(series.items())]
    words = f"Pods (at the top: {max(found.most, 1)})"
    # Pods as a share of their largest number: where they change is what matters.
    pods = charts.Line(
        label=words,
        x=found.times_s.tolist(),
        y=(found.pods * most / max(found.most, 1)).tolist(),
        colour="#7a7a7a",
        dashed=True,
        steps=True,
    )
    return charts.Chart(x_label=figure.SECONDS, y_label=label, lines=[*shown, pods], height_in=2.8)
