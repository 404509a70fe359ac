"""An agent's state for people, in answers and logs. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from carico_agent.learning import pipeline
from carico_agent.telemetry import panel


def of_source(facts: panel.Facts, *, ceiling: Sequence[float]) -> dict[str, Any]:
    """Return facts about the node and the source of its figures."""
    return {
        "source": facts.source,
        "notes": list(facts.notes),
        "cores": facts.cores,
        "scale": dict(zip(facts.dims, facts.scale, strict=True)),
        "ceiling": dict(zip(facts.dims, ceiling, strict=True)),
    }


def log_line(state: pipeline.State) -> dict[str, Any]:
    """Return the fields of an update's log line."""
    estimate = state.estimate
    return {
        "capacity": round(estimate.capacity, 2),
        "sd": round(estimate.capacity_sd, 2),
        "mode": estimate.mode,
        "bottleneck": estimate.bottleneck,
        "signal": round(state.signal, 3),
        "pods": state.pods,
        "usage": [round(usage, 3) for usage in state.usage.tolist()],
        "federated": state.federated,
    }


def history_row(state: pipeline.State) -> tuple[Any, ...]:
    """Return one second of the history, in the order of the columns of `of_history`."""
    estimate = state.estimate
    row = (state.sampled_at_ns, estimate.capacity, estimate.capacity_sd, state.signal, state.pods)
    return (*row, *(round(usage, 4) for usage in state.usage.tolist()))


def of_history(rows: Iterable[tuple[Any, ...]], dims: tuple[str, ...]) -> dict[str, Any]:
    """Return the last minutes as a table."""
    return {"columns": ["sampled_at_ns", "capacity", "sd", "signal", "pods", *dims], "rows": list(rows)}


def of_state(state: pipeline.State, dims: tuple[str, ...]) -> dict[str, Any]:
    """Return what is advertised now, and all numbers behind it."""
    estimate = state.estimate
    return {
        "capacity": estimate.capacity,
        "capacity_sd": estimate.capacity_sd,
        "mode": estimate.mode,
        "bottleneck": estimate.bottleneck,
        "limit": estimate.limit,
        "headroom": estimate.headroom,
        "cost_plus": estimate.cost_plus,
        "baseline": estimate.baseline,
        "cost": estimate.cost,
        "pods": state.pods,
        "filtered_pods": estimate.filtered_pods,
        "usage": dict(zip(dims, state.usage.tolist(), strict=True)),
        "parts": state.parts,
        "innovation": state.innovation,
        "signal": state.signal,
        "direction": dict(zip(dims, state.direction.tolist(), strict=True)),
        "federated": state.federated,
    }
