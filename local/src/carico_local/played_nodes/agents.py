"""What the agents of a fleet would report. Pure. Nothing is measured; each node takes a fixed number of Pods."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from carico_core.domain import messages

# How long an ended Pod stays in `covers` (messages.Advertisement).
COVERED_S = 60.0
_TERMINAL = ("Succeeded", "Failed")
# The cost of one Pod: one core, as for a Pod that computes all the time.
_COST_CORES = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Origin and time of an advertisement. `now_s` is monotonic."""

    boot: str
    seq: int
    ts_ns: int
    now_s: float


class Agents:
    """The Pods of every node, as the Kubernetes API shows them."""

    def __init__(self, nodes: Iterable[str], *, capacity: float) -> None:
        self._capacity = capacity
        self._running: dict[str, set[str]] = {node: set() for node in nodes}
        self._ended: dict[str, collections.deque[tuple[float, str]]] = {}
        self._node_of: dict[str, str] = {}

    @property
    def nodes(self) -> list[str]:
        """Every node's name."""
        return list(self._running)

    def on_list(self, pods: Iterable[Mapping[str, Any]], now_s: float) -> set[str]:
        """Apply a list of all Pods; return the nodes whose Pods changed."""
        present = list(pods)
        uids = {str(pod["metadata"]["uid"]) for pod in present}
        changed = {self._end(uid, now_s) for uid in list(self._node_of) if uid not in uids}
        changed |= {self.on_pod(pod, now_s) for pod in present}
        return {node for node in changed if node is not None}

    def on_pod(self, pod: Mapping[str, Any], now_s: float) -> str | None:
        """Apply one Pod; return the node whose Pods changed, None where none did."""
        uid, node = str(pod["metadata"]["uid"]), pod.get("spec", {}).get("nodeName")
        if node not in self._running:
            return None
        if pod.get("status", {}).get("phase") in _TERMINAL:
            return self._end(uid, now_s)
        if uid in self._node_of:
            return None
        self._node_of[uid] = node
        self._running[node].add(uid)
        return str(node)

    def on_removed(self, pod: Mapping[str, Any], now_s: float) -> str | None:
        """Apply a deletion; return the node whose Pods changed, None where none did."""
        return self._end(str(pod["metadata"]["uid"]), now_s)

    def _end(self, uid: str, now_s: float) -> str | None:
        node = self._node_of.pop(uid, None)
        if node is not None:
            self._running[node].discard(uid)
            self._ended.setdefault(node, collections.deque()).append((now_s, uid))
        return node

    def advertisement(self, node: str, stamp: Stamp) -> messages.Advertisement:
        """Return what the node's agent would advertise now."""
        running = self._running[node]
        ended = self._ended.get(node)
        while ended and stamp.now_s - ended[0][0] > COVERED_S:
            ended.popleft()
        used = min(1.0, len(running) / self._capacity)
        free = max(0.0, self._capacity - len(running))
        return messages.Advertisement(
            node=node, boot=stamp.boot, seq=stamp.seq, ts_ns=stamp.ts_ns, sampled_at_ns=stamp.ts_ns,
            capacity=free, capacity_sd=0.0, bottleneck="cpu", signal=used,
            baseline={"cpu": messages.Estimate(mean=0.0, sd=0.0)},
            cost={"cpu": messages.Estimate(mean=_COST_CORES, sd=0.0)},
            pods=len(running), covers=frozenset(running) | {uid for _, uid in ended or ()},
            mode=messages.Mode.PREDICTED, usage={"cpu": used}, parts={"cpu.utilisation": used}, direction={"cpu": 1.0},
        )  # fmt: skip
