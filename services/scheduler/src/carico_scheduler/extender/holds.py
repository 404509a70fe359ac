"""Room that is promised to Pods between kube-scheduler's filter and its bind.

A filter passes several nodes, and kube-scheduler does not report which one it chose before its bind. Until then room is
held for the Pod on each of them, so that no other Pod is promised the same room. That reserves too much only for a
moment: kube-scheduler decides about one Pod at a time and asks for the bind right after the filter.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from carico_core.domain import cluster
from carico_scheduler.pods import demand as demands


@dataclasses.dataclass(slots=True, kw_only=True)
class Hold:
    """The hold of one Pod. `since_s` is monotonic."""

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
        """Return the hold of a Pod, or None."""
        return self._holds.get(uid)

    def put(self, pod: cluster.Pod, demand: demands.Demand, nodes: Iterable[str], now_s: float) -> None:
        """Hold room for a Pod on each of `nodes`, in place of its earlier hold."""
        self.drop(pod.uid)
        hold = Hold(pod=pod, demand=demand, nodes=tuple(nodes), since_s=now_s)
        if not hold.nodes:
            return
        self._holds[pod.uid] = hold
        for node in hold.nodes:
            self._by_node.setdefault(node, {})[pod.uid] = demand

    def drop(self, uid: str) -> bool:
        """End the hold of a Pod; return True if there was one."""
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
        """End holds that have lasted too long, and return how many: kube-scheduler gave up or will try again."""
        old = [uid for uid, hold in self._holds.items() if now_s - hold.since_s > self._hold_s]
        for uid in old:
            self.drop(uid)
        return len(old)

    def on(self, node: str, *, but: str) -> list[demands.Demand]:
        """Return what is held on a node for Pods other than `but`."""
        return [demand for uid, demand in self._by_node.get(node, {}).items() if uid != but]

    def youngest_s(self, *, but: str) -> float | None:
        """Return when the newest hold of a Pod other than `but` was made; None if there is none."""
        return max((hold.since_s for uid, hold in self._holds.items() if uid != but), default=None)


class AskedSince:
    """Since when kube-scheduler has been asking for each Pod."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._since_s)

    def note(self, uid: str, now_s: float) -> None:
        """Note that kube-scheduler asks for a Pod; the first time counts."""
        self._since_s.setdefault(uid, now_s)

    def since_s(self, uid: str, now_s: float) -> float:
        """Return since when it has been asking for the Pod; `now_s` if it never has."""
        return self._since_s.get(uid, now_s)

    def drop_ended(self, waits: Callable[[str], bool], *, before_s: float) -> None:
        """Forget Pods that no longer wait, except those asked for after `before_s`: the watch may be behind."""
        for uid in [uid for uid, since_s in self._since_s.items() if since_s < before_s and not waits(uid)]:
            del self._since_s[uid]
