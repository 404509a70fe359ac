"""How well a replay fitted: against logged estimates, by its innovation, and how soon its capacity was useful."""

import bisect
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from carico_cli.recordings import engine, trace
from carico_core.numerics import estimators
from carico_core.numerics.estimators import base


def summary(run: engine.Run) -> dict[str, Any]:
    """Return the fit as JSON types; None where there is no data for a value."""
    samples, steps = run.trace.recording.samples, run.steps
    against, errors = _against_logged(run)
    return {
        "file": run.trace.name,
        "format": run.trace.format,
        "estimator": run.setup.estimator,
        "constants": run.setup.constants,
        "inputs": run.inputs,
        "seconds": round(float(samples.times_s[-1] - samples.times_s[0]), 3),
        "samples": len(samples.times_s),
        "pod_events": len(run.trace.recording.events),
        "most_pods": max(step.pods for step in steps),
        "updates": len(steps),
        "rms": {name: _rms(found) for name, found in errors.items()},
        "compared": {"with": against, **{name: len(found) for name, found in errors.items()}},
        "innovation": _innovation(steps),
        "censored_share": _share([step.censored for step in steps]),
        "churn_share": _share([step.churning for step in steps]),
        "first_useful_s": first_useful_s(steps),
        "capacity": {"last": round(steps[-1].estimate.capacity, 6), "mode": steps[-1].estimate.mode},
        "notes": list(run.trace.notes),
    }


def first_useful_s(steps: Sequence[engine.Step]) -> float | None:
    """Return the seconds until a capacity of at least one Pod was measured; None where it never was."""
    useful = (step.at_s for step in steps if step.estimate.mode == "measured" and step.estimate.capacity >= 1.0)
    found = next(useful, None)
    return None if found is None else round(found, 3)


def logged(run: engine.Run) -> tuple[str, list[tuple[trace.Evaluation, trace.Learnt]]]:
    """Return the name under which comparable estimates were logged, and these estimates in order (may be none)."""
    if run.setup.estimator not in estimators.SCALAR:
        # Only a scalar estimator learns the quantities of the author's log.
        return trace.PUBLISHED, []
    shown = [one for one in run.trace.evaluations if one.learnt]
    named = any(run.setup.estimator in one.learnt for one in shown)
    whose = run.setup.estimator if named else trace.PUBLISHED
    return whose, [(one, one.learnt[whose]) for one in shown if whose in one.learnt]


def _against_logged(run: engine.Run) -> tuple[str | None, dict[str, list[float]]]:
    """Return the name of the logged estimates or None, and our estimates minus theirs."""
    errors: dict[str, list[float]] = {"baseline": [], "cost": []}
    against, found = logged(run)
    for evaluation, learnt in found:
        step = _step_of(run, evaluation)
        if step is None:
            continue
        errors["cost"].append(step.estimate.cost[base.SIGNAL][0] - learnt.cost)
        if learnt.baseline is not None:
            errors["baseline"].append(step.estimate.baseline[base.SIGNAL][0] - learnt.baseline)
    return (against if errors["cost"] else None), errors


def _step_of(run: engine.Run, evaluation: trace.Evaluation) -> engine.Step | None:
    """Return the last step up to an evaluation."""
    at_s = evaluation.at_s - float(run.trace.recording.samples.times_s[0])
    index = bisect.bisect_right(run.steps, at_s + 1e-9, key=lambda step: step.at_s)
    return run.steps[index - 1] if index else None


def _innovation(steps: Sequence[engine.Step]) -> dict[str, dict[str, float | int | None]]:
    names = dict.fromkeys(name for step in steps for name in step.innovation)
    return {name: _moments([step.innovation.get(name) for step in steps]) for name in names}


def _moments(values: Sequence[float | None]) -> dict[str, float | int | None]:
    """Return mean, sd and lag-1 correlation; the innovation of a filter that fits is uncorrelated."""
    known = np.array([value for value in values if value is not None])
    pairs = [(a, b) for a, b in itertools.pairwise(values) if a is not None and b is not None]
    return {
        "count": len(known),
        "mean": _rounded(float(known.mean())) if len(known) else None,
        "sd": _rounded(float(known.std())) if len(known) else None,
        "lag1": _lag1(np.array(pairs), float(known.mean())) if len(pairs) > 1 else None,
    }


def _lag1(pairs: Any, mean: float) -> float | None:
    # r_1 = sum (e_k - m)(e_k+1 - m) / sum (e_k - m)^2, over neighbours without a gap
    before, after = pairs[:, 0] - mean, pairs[:, 1] - mean
    power = math.sqrt(float(before @ before) * float(after @ after))
    return _rounded(float(before @ after) / power) if power > 0.0 else None


def _rms(errors: Sequence[float]) -> float | None:
    return _rounded(math.sqrt(math.fsum(error * error for error in errors) / len(errors))) if errors else None


def _share(flags: Sequence[bool]) -> float:
    return round(sum(flags) / len(flags), 6)


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")
