"""Draws a replay: the observations, what was learnt from them, and the resulting capacity."""

import math
import pathlib
from collections.abc import Callable
from typing import Any

from carico_cli.output import charts
from carico_cli.recordings import engine, fit
from carico_core.numerics.estimators import base


def draw(run: engine.Run, path: pathlib.Path) -> None:
    """Write the picture of a replay."""
    panels = _panels(run)

    def fill(figure: Any) -> None:
        axes = figure.subplots(len(panels), sharex=True, squeeze=False)
        for ax, panel in zip(axes[:, 0], panels, strict=True):
            panel(ax)
            charts.legend(ax)
        axes[-1, 0].set_xlabel("seconds since the first sample")

    charts.picture(
        fill, path, title=f"{pathlib.Path(run.trace.name).name}: {run.setup.estimator}", height_in=2.4 * len(panels)
    )


def _panels(run: engine.Run) -> list[Callable[[Any], None]]:
    learnt = list(run.steps[-1].estimate.cost)
    return [
        lambda ax: _draw_seen(ax, run),
        *((lambda ax, name=name: _draw_learnt(ax, run, name)) for name in learnt),
        lambda ax: _draw_capacity(ax, run),
    ]


def _draw_seen(ax: Any, run: engine.Run) -> None:
    times = [step.at_s for step in run.steps]
    for index, dim in enumerate(run.trace.recording.facts.dims):
        ax.plot(times, [step.usage[index] for step in run.steps], label=f"{dim} (filtered)", linewidth=1.2)
    ax.set(ylabel="share in use", ylim=(0.0, 1.05))
    if base.SIGNAL in run.steps[-1].estimate.cost:
        other = ax.twinx()
        level = [step.level if math.isfinite(step.level) else math.nan for step in run.steps]
        other.plot(times, level, color="C3", linewidth=1.0, label="signal")
        other.set_ylabel("signal")
        other.grid(visible=False)
        ax.plot([], [], color="C3", linewidth=1.0, label="signal")


def _draw_learnt(ax: Any, run: engine.Run, name: str) -> None:
    times = [step.at_s for step in run.steps]
    unit, factor = _UNITS.get(name, (name, 1.0))
    for index, (label, values) in enumerate(_learnt(run, name)):
        means = [mean * factor for mean, _ in values]
        ax.plot(times, means, color=f"C{index}", label=label, linewidth=1.2)
        low = [max(0.0, mean - sd) * factor for mean, sd in values]
        high = [(mean + sd) * factor for mean, sd in values]
        ax.fill_between(times, low, high, color=f"C{index}", alpha=0.12)
    if name == base.SIGNAL:
        _draw_logged(ax, run)
    top = _top(run, name) * factor
    # From a little below zero, so that a cost of zero is visible.
    ax.set(ylabel=unit, ylim=(-0.02 * top, top))


def _draw_logged(ax: Any, run: engine.Run) -> None:
    whose, found = fit.logged(run)
    first_s = float(run.trace.recording.samples.times_s[0])
    for index, kind in enumerate(("baseline", "cost")):
        points = [(seen.at_s - first_s, value) for seen, one in found if (value := getattr(one, kind)) is not None]
        if points:
            label = f"{kind}, logged" if whose == run.setup.estimator else f"{kind}, logged ({whose})"
            ax.plot(*zip(*points, strict=True), color=f"C{index}", linestyle=":", linewidth=1.6, label=label)


def _top(run: engine.Run, name: str) -> float:
    """Return the upper end of the axis, with room for the deviation of known values only.

    A node that was never seen without Pods has a baseline that may be anything up to its whole usage.
    """
    shown = [min(mean + sd, 2.0 * mean) for _, values in _learnt(run, name) for mean, sd in values]
    if name == base.SIGNAL:
        shown += [value for _, one in fit.logged(run)[1] for value in (one.baseline, one.cost) if value is not None]
    return 1.1 * max(shown) or 1.0


_UNITS = {"cpu": ("CPU (runnable tasks)", 1.0), "memory": ("memory (MiB)", 2**-20)}


def _learnt(run: engine.Run, name: str) -> list[tuple[str, list[base.Spread]]]:
    return [
        ("baseline", [step.estimate.baseline[name] for step in run.steps]),
        ("cost of a Pod", [step.estimate.cost[name] for step in run.steps]),
    ]


def _draw_capacity(ax: Any, run: engine.Run) -> None:
    times = [step.at_s for step in run.steps]
    pods = [step.pods for step in run.steps]
    ax.step(times, pods, where="post", color="C7", linestyle=":", label="Pods", linewidth=1.4)
    total = [step.pods + step.estimate.capacity for step in run.steps]
    ax.step(times, total, where="post", color="C0", label="Pods + capacity", linewidth=1.2)
    useful_s = fit.first_useful_s(run.steps)
    if useful_s is not None:
        ax.axvline(useful_s, color="C2", linewidth=1.0, label="first useful capacity")
    # The estimate may be the cap before it has seen a Pod: the axis follows the load.
    ax.set(ylabel="Pods", ylim=(0.0, 1.05 * min(max(total), 4.0 * max(*pods, 5))))
