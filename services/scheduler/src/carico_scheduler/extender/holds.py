"""Room that is promised to Pods between kube-scheduler's filter and its bind.

kube-scheduler does not say which of the nodes it was given it will take; until it does, the Pod is held on each of
them, so that no other Pod is promised the same room. That is never too little, and too much only for as long as the
answer takes: it decides about one Pod at a time and asks for the bind a moment after the filter.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from carico_core.domain import cluster
from carico_scheduler.pods import demand as demands


@dataclasses.dataclass(slots=True, kw_only=True)
class Hold:
    """One Pod's hold. `since_s` is monotonic."""

    pod: cluster.Pod
    demand: demands.Demand
    nodes: tuple[str, ...]
    since_s: float


class Holds:
    """All holds, by Pod and by node."""

    def __init__(self, *, hold_s: float) -> None:
        self._hold_s = hold_s
        self._holds: dict[str, Hold] = {}
        self._by_node: dict[str, dict[str, demands.Demand]] = {}

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(list(self._holds.values()))

    def find(self, uid: str) -> Hold | None:
        """The hold of a Pod, or None."""
        return self._holds.get(uid)

    def put(self, pod: cluster.Pod, demand: demands.Demand, nodes: Iterable[str], now_s: float) -> None:
        """Hold room for a Pod on each of `nodes`, in place of what was held for it before."""
        self.drop(pod.uid)
        hold = Hold(pod=pod, demand=demand, nodes=tuple(nodes), since_s=now_s)
        if not hold.nodes:
            return
        self._holds[pod.uid] = hold
        for node in hold.nodes:
            self._by_node.setdefault(node, {})[pod.uid] = demand

    def drop(self, uid: str) -> bool:
        """True where room was held for the Pod; it is free again, or reserved where the Pod went."""
        hold = self._holds.pop(uid, None)
        if hold is None:
            return False
        for node in hold.nodes:
            on_node = self._by_node[node]
            del on_node[uid]
            if not on_node:
                del self._by_node[node]
        return True

    def drop_old(self, now_s: float) -> int:
        """How many holds have lasted too long: kube-scheduler has given those Pods up, or looks at them again."""
        old = [uid for uid, hold in self._holds.items() if now_s - hold.since_s > self._hold_s]
        for uid in old:
            self.drop(uid)
        return len(old)

    def on(self, node: str, *, but: str) -> list[demands.Demand]:
        """What is held on a node for other Pods than `but`."""
        return [demand for uid, demand in self._by_node.get(node, {}).items() if uid != but]

    def youngest_s(self, *, but: str) -> float | None:
        """When the newest hold of another Pod than `but` was made; None where there is none."""
        return max((hold.since_s for uid, hold in self._holds.items() if uid != but), default=None)


class Waits:
    """Since when kube-scheduler has been asking for each Pod."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._since_s)

    def note(self, uid: str, now_s: float) -> None:
        """A Pod is asked for; the first time counts."""
        self._since_s.setdefault(uid, now_s)

    def since_s(self, uid: str, now_s: float) -> float:
        """Since when it has asked for the Pod; `now_s` where it never has."""
        return self._since_s.get(uid, now_s)

    def drop_ended(self, waits: Callable[[str], bool], *, before_s: float) -> None:
        """Forget Pods that wait no more, except those of after `before_s`: the watch may be behind."""
        for uid in [uid for uid, since_s in self._since_s.items() if since_s < before_s and not waits(uid)]:
            del self._since_s[uid]
