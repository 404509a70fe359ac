"""The input of a replay: a recording, and what its agent is known to have computed."""

import dataclasses
from collections.abc import Mapping

from carico_core.domain import messages, recording


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """Baseline and cost as logged; the cost is positive. `delta` has no baseline."""

    cost: float
    baseline: float | None = None


# Stands for the estimator behind the published capacity, in logs that do not name it.
PUBLISHED = "published"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """One logged evaluation of the signal. usage, direction: (d,). pods: None where the agent held (churn).

    level: the signal as logged. learnt: estimator -> its values after this evaluation.
    """

    at_s: float
    usage: messages.Array
    direction: messages.Array
    level: float | None
    pods: int | None
    learnt: Mapping[str, Learnt]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ApiEvent:
    """What the agent's listener at the Kubernetes API heard of a Pod, at the time when it did."""

    at_s: float
    pod: str
    running: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """format: `recording` or `log`. evaluations, api: empty in a recording. notes: shown with the result."""

    name: str
    format: str
    recording: recording.Recording
    evaluations: tuple[Evaluation, ...] = ()
    api: tuple[ApiEvent, ...] = ()
    notes: tuple[str, ...] = ()
