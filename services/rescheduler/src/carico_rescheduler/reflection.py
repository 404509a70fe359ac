"""What became of moves: the gain that plans predicted, and what was measured afterwards. Pure.

After a plan is carried out, its effect is measured once loads and traffic have settled, in the plan's own units. Where
the last plans reached less than they predicted, the next one has to predict as much more (`reached`), for an hour:
otherwise nothing might ever move again, and be measured. Where several in a row reach much less, what they were based
on is wrong, for example traffic that changes faster than Pods move: then the rescheduler rests. Times are Unix seconds,
since a later leader goes on with what `kept` returns.
"""

import collections
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from carico_core.numerics.rescheduling.containers import gains
from carico_rescheduler.plan import decision

# Traffic is a mean of two minutes (`adapter.traffic.WINDOW_S`), and agents report every 10 s. Before, the new Pods' own
# traffic counts for a part, and a move seems to gain more than it does.
SETTLE_S = 130.0
# Plans that are compared, and the share of the predicted gain below which they did not pay.
COMPARED = 3
PAYS = 0.2
REST_S = 3600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A plan that was carried out: costs before it, the gain of its moves, and when it ended."""

    traffic_bytes: float
    excess_tasks: float
    weights: gains.Weights
    predicted: float
    ended_s: float


class Reflection:
    """Compares predicted and measured gains."""

    def __init__(self) -> None:
        self._waiting: Made | None = None
        self._compared: collections.deque[tuple[float, float]] = collections.deque(maxlen=COMPARED)
        self._measured_s = self._rests_until_s = float("-inf")

    def made(self, plan: decision.Plan, gain: float, weights: gains.Weights, now_s: float) -> None:
        """Note a plan, of which moves with so much gain were made."""
        if gain > 0.0:
            self._waiting = Made(
                traffic_bytes=plan.traffic_bytes[0], excess_tasks=plan.excess_tasks[0], weights=weights,
                predicted=gain, ended_s=now_s,
            )  # fmt: skip

    def measure(self, traffic_bytes: float, excess_tasks: float, now_s: float) -> tuple[float, float] | None:
        """Return (predicted, measured) gain of the last plan once its effect has settled; None otherwise."""
        made = self._waiting
        # The clock may have been set back since.
        if made is None or 0.0 <= now_s - made.ended_s < SETTLE_S:
            return None
        self._waiting = None
        measured = made.weights.gain(made.traffic_bytes - traffic_bytes, made.excess_tasks - excess_tasks)
        self._compared.append((made.predicted, measured))
        self._measured_s = now_s
        if len(self._compared) == COMPARED and self._share() < PAYS:
            self._rests_until_s = now_s + REST_S
            self._compared.clear()
        return made.predicted, measured

    def reached(self, now_s: float) -> float:
        """Return the share of what the last plans predicted that was measured: 1 without any, or if it was more."""
        is_recent = 0.0 <= now_s - self._measured_s <= REST_S
        return min(max(self._share(), PAYS), 1.0) if is_recent else 1.0

    def is_settling(self) -> bool:
        """Return whether the effect of the last plan is still to be measured: until then, no other is made."""
        return self._waiting is not None

    def rests(self, now_s: float) -> str:
        """Return why nothing is moved now; empty if moves pay."""
        left_s = self._rests_until_s - now_s
        if not 0.0 < left_s <= REST_S:
            return ""
        return f"the last {COMPARED} plans gained less than {PAYS:.0%} of what they predicted: rests {left_s:.0f} s"

    def kept(self) -> dict[str, Any]:
        """Return what a later leader needs, for JSON."""
        waiting = None if self._waiting is None else dataclasses.asdict(self._waiting)
        measured_s, until_s = (
            each if math.isfinite(each) else 0.0 for each in (self._measured_s, self._rests_until_s)
        )  # fmt: skip
        compared = list(self._compared)
        return {"waiting": waiting, "compared": compared, "measured_at": measured_s, "rests_until": until_s}

    def take_over(self, kept: Mapping[str, Any]) -> None:
        """Go on where an earlier leader ended; what people have written in its place is left out."""
        try:
            waiting, compared = kept.get("waiting"), kept.get("compared") or ()
            made = None if waiting is None else _made(waiting)
            found = [(float(predicted), float(measured)) for predicted, measured in compared]
            measured_s, until_s = (float(kept.get(name) or 0.0) for name in ("measured_at", "rests_until"))
            if not all(map(math.isfinite, (measured_s, until_s, *(each for pair in found for each in pair)))):
                raise ValueError("not finite")
        except (AttributeError, KeyError, TypeError, ValueError):
            return
        self._waiting, self._measured_s, self._rests_until_s = made, measured_s, until_s
        self._compared = collections.deque(found, maxlen=COMPARED)

    def _share(self) -> float:
        predicted = sum(each[0] for each in self._compared)
        return sum(each[1] for each in self._compared) / predicted if predicted > 0.0 else 1.0


def _made(kept: Mapping[str, Any]) -> Made:
    """Return a plan that was carried out. Raises `KeyError`, `TypeError` and `ValueError`."""
    found = {name: float(kept[name]) for name in ("traffic_bytes", "excess_tasks", "predicted", "ended_s")}
    task_bytes = float(kept["weights"]["task_bytes"])
    if not all(map(math.isfinite, found.values())) or not task_bytes > 0.0:
        raise ValueError("not finite")
    return Made(weights=gains.Weights(task_bytes=task_bytes), **found)
