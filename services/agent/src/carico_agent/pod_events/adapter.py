"""What all adapters of Pod events share, and the events without the Pods that belong to the node."""

import dataclasses
from collections.abc import Callable

from carico_agent import ports
from carico_agent.pod_events import pod_states
from carico_core.domain import recording
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks


class Adapter:
    """Implements `carico_agent.ports.PodEvents`, except `run`, which passes events to the states."""

    def __init__(self, name: str, *, clock: clocks.Clock) -> None:
        self._clock = clock
        self._states = pod_states.PodStates()
        self._log = logs.get("pods", adapter=name)

    def current(self) -> pod_states.KnownPods:
        """Return the current Pods; while their source is away, the last known ones."""
        return self._states.current(self._clock.monotonic_s())

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the loop's thread after each change of the running Pods."""
        self._states.on_change(callback)

    def on_event(self, witness: pod_states.Witness) -> None:
        """Call `witness` with each event of a Pod."""
        self._states.on_event(witness)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workloads:
    """Implements `carico_agent.ports.PodEvents`: the Pods of `pods` without those that the API shows as baseline.

    Adapters that only see UIDs cannot distinguish a DaemonSet's Pods from a job's.
    """

    pods: ports.PodEvents
    classes: ports.PodClasses

    def current(self) -> ports.PodSet:
        """Return the current Pods without the baseline."""
        now = self.pods.current()
        own = [uid for uid in now.running if self.classes.is_baseline(uid)]
        if not own:
            return now
        ended = [uid for uid in now.ended if not self.classes.is_baseline(uid)]
        return pod_states.KnownPods(
            running=frozenset(now.running).difference(own), ended=dict.fromkeys(ended).keys(), holding=now.holding,
            baseline=frozenset(now.baseline).union(own),
        )  # fmt: skip

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the loop's thread after each change."""
        self.pods.on_change(callback)

    def on_event(self, witness: pod_states.Witness) -> None:
        """Call `witness` with each event of a Pod that is not known to be baseline."""

        def report(kind: recording.EventKind, uid: str, at_s: float) -> None:
            if not self.classes.is_baseline(uid):
                witness(kind, uid, at_s)

        self.pods.on_event(report)

    async def run(self) -> None:
        """Keep `current` up to date until cancelled."""
        await self.pods.run()
