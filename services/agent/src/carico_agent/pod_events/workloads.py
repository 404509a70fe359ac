"""Pod events without the node's own Pods: an adapter that sees UIDs cannot separate a DaemonSet's from a job's."""

import dataclasses
from collections.abc import Callable

from carico_agent import ports
from carico_agent.pod_events import pod_states
from carico_core.domain import recording


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workloads:
    """See `carico_agent.ports.PodEvents`: those of `pods`, less what the API shows to be baseline."""

    pods: ports.PodEvents
    classes: ports.PodClasses

    def current(self) -> ports.PodSet:
        """Return the Pods now, less the baseline's."""
        now = self.pods.current()
        own = [uid for uid in now.running if self.classes.is_baseline(uid)]
        if not own:
            return now
        ended = [uid for uid in now.ended if not self.classes.is_baseline(uid)]
        return pod_states.PodSet(
            running=frozenset(now.running).difference(own), ended=dict.fromkeys(ended).keys(), holding=now.holding,
            baseline=frozenset(now.baseline).union(own),
        )  # fmt: skip

    def on_change(self, callback: Callable[[], None]) -> None:
        """`callback` is called in the loop's thread after each change, also once a Pod shows to be baseline."""
        self.pods.on_change(callback)

    def on_event(self, witness: pod_states.Witness) -> None:
        """Call `witness` with what happens to Pods that are not known to be baseline by then."""

        def report(kind: recording.EventKind, uid: str, at_s: float) -> None:
            if not self.classes.is_baseline(uid):
                witness(kind, uid, at_s)

        self.pods.on_event(report)

    async def run(self) -> None:
        """Keep `current` up to date until cancelled."""
        await self.pods.run()
