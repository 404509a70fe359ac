"""Pods that use next to nothing of a dimension, kept out of its mean cost.

Twenty idle servers beside one busy Pod would leave a mean cost of almost nothing, and the node would then take twenty
busy ones. So Pods whose coming changed nothing count as baseline, and tell nothing about the next Pod. "Nothing" is
less than S / Pod limit each: so little cannot fill the node before its Pod limit does.
"""

from carico_core.numerics import kalman

# A change of the count that says something about its Pods: most of one Pod, or the part the filters show so far.
WHOLE_CHANGE_PODS = 0.8
PART_CHANGE_PODS = 0.5
# By which factor a change must contradict the mean before the change is believed, and how sure that makes it.
CONTRADICTION = 2.0
BELIEVED_SD = 0.3
# Standard deviations of a reading that a change of usage must exceed to count as seen.
SEEN_SD = 3.0
# Older comparisons mix too many comings and goings to say what any of them used.
COMPARABLE_S = 10.0


class IdlePods:
    """m, the Pods among those shown that use nothing of one dimension, judged by what changed when they came."""

    __slots__ = ("_age_s", "_anchor_level", "_anchor_shown", "_least_cost", "count")

    def __init__(self, *, least_cost: float) -> None:
        self._least_cost = least_cost
        self.count = 0.0
        # Usage and count when the count last stood still, and how long ago that was.
        self._anchor_level = 0.0
        self._anchor_shown = 0.0
        self._age_s = 0.0

    def clear(self, level: float) -> None:
        """No Pods: none of them is idle, and this is the point to compare with."""
        self.count = 0.0
        self._mark(level, 0.0)

    def shows_little(self, level: float, *, above_baseline: float, shown: float, few: float) -> bool:
        """Whether the Pods that came or went since the count last stood still (or else all) use next to nothing.

        level, above_baseline: Y and Y - b. few: counts below this say nothing.
        """
        came = shown - self._anchor_shown
        if self._age_s <= COMPARABLE_S and abs(came) >= PART_CHANGE_PODS:
            grown = level - self._anchor_level
            return grown < self._least_cost * came if came > 0.0 else -grown < -self._least_cost * came
        busy = shown - self.count
        return busy < few or above_baseline < self._least_cost * busy

    def wait(self, shown: float, dt_s: float) -> None:
        """The count is moving: the point to compare with grows older."""
        # Idle Pods that leave still count here until the change can be judged: whoever else is on the node must not
        # pass for idle meanwhile.
        if self._age_s > COMPARABLE_S:
            self.count = min(self.count, shown)
        # Held just past the limit, so that the state does not grow with time.
        self._age_s = min(self._age_s + dt_s, 2.0 * COMPARABLE_S)

    def settle(
        self, level: float, *, above_baseline: float, shown: float, held: bool, cost: kalman.Belief, noise: float
    ) -> kalman.Belief | None:
        """A cost to believe instead of the mean, or None; call when the count stands still and shows in full.

        `held`: what came or went shows little, so it is idle. Otherwise a change that contradicts the mean cost by a
        factor of two shows that the mean is diluted (idle and busy Pods came together), or that too many count as
        idle.
        """
        came = shown - self._anchor_shown
        grown = level - self._anchor_level
        comparable = self._age_s <= COMPARABLE_S
        self._mark(level, shown)
        if held:
            judged = self.count + came if comparable and abs(came) >= PART_CHANGE_PODS else shown
            self.count = min(max(judged, 0.0), shown)
            return None
        self.count = min(self.count, shown)
        if not comparable or abs(came) < WHOLE_CHANGE_PODS or abs(grown) < SEEN_SD * noise or grown * came <= 0.0:
            return None
        return self._believe(grown / came, above_baseline, shown, cost=cost.mean)

    def _believe(self, slope: float, above_baseline: float, shown: float, *, cost: float) -> kalman.Belief | None:
        diluted = slope > CONTRADICTION * cost
        inflated = slope * CONTRADICTION < cost and self.count > 0.0
        if not (diluted or inflated):
            return None
        # Y - b = c (x - m), with c from the change
        self.count = min(max(shown - above_baseline / slope, 0.0), shown)
        return kalman.Belief(slope, (BELIEVED_SD * slope) ** 2)

    def _mark(self, level: float, shown: float) -> None:
        self._anchor_level, self._anchor_shown, self._age_s = level, shown, 0.0
