"""Conditions and taints of Nodes without heartbeats, as set by the controller manager's node-lifecycle controller.

A Node whose Lease has not been renewed for the grace period becomes Ready=Unknown and unreachable; once its kubelet
posts Ready again, the taints are removed. The grace period counts from when a renewal is seen here, since a node's
clock may be wrong. Pods keep their phase: their state is unknown.
Source: k8s.io/kubernetes/pkg/controller/nodelifecycle.
"""

import asyncio
import dataclasses
from typing import Any

from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import instants
from carico_core.wire.kubernetes import object_fields as fields
from carico_local.api.model import objects
from carico_local.api.storage import store

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OWNED_TAINTS = (_NOT_READY, _UNREACHABLE, _UNSCHEDULABLE)
# Conditions that a kubelet maintains: Unknown without heartbeats.
_KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_LEASE_NAMESPACE = "kube-node-lease"
_LOG = logs.get("api.nodes")


@dataclasses.dataclass(slots=True)
class _Sign:
    """The last heartbeat of a node: its value, and when it was seen."""

    renewed: object
    seen_s: float


class NodeLifecycle:
    """Keeps the Ready conditions and the taints of all Nodes of a store up to date."""

    def __init__(self, kept: store.Store, clock: clocks.Clock, *, grace_s: float) -> None:
        self._store = kept
        self._clock = clock
        self._grace_s = grace_s
        self._signs: dict[str, _Sign] = {}
        self._changed = asyncio.Event()
        kept.listen(self._notice)

    async def run(self) -> None:
        """Review all Nodes when one changes, and often enough to notice a missing heartbeat, until cancelled."""
        while True:
            with store.unwritable_ignored("conditions of Nodes"):
                self.review()
            self._changed.clear()
            try:
                async with asyncio.timeout(self._grace_s / 8):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def review(self) -> None:
        """Update conditions and taints of every Node."""
        nodes = self._store.select("nodes")
        names = {node.data["metadata"]["name"] for node in nodes}
        self._signs = {name: sign for name, sign in self._signs.items() if name in names}
        with self._store.batch():
            for node in nodes:
                data = objects.copy(node)
                if self._is_silent(data):
                    self._mark_unknown(data)
                _settle_taints(data, instants.format_time(self._clock.wall_ns()))
                if data != node.data:
                    self._store.put("nodes", data)

    def _notice(self, change: store.Change) -> None:
        # Leases are only read at the next review: every node renews its Lease every few seconds.
        if change.storage == "nodes":
            self._changed.set()

    def _is_silent(self, node: objects.Object) -> bool:
        """Return True where neither Lease nor status heartbeat has changed for the grace period."""
        name = node["metadata"]["name"]
        lease = self._store.get("leases", (_LEASE_NAMESPACE, name))
        renewed = (lease and lease.data.get("spec", {}).get("renewTime"), _heartbeat(node))
        now_s = self._clock.monotonic_s()
        sign = self._signs.setdefault(name, _Sign(renewed=renewed, seen_s=now_s))
        if sign.renewed != renewed:
            sign.renewed, sign.seen_s = renewed, now_s
        return now_s - sign.seen_s > self._grace_s

    def _mark_unknown(self, node: objects.Object) -> None:
        now = instants.format_time(self._clock.wall_ns())
        conditions = node.setdefault("status", {}).setdefault("conditions", [])
        known = {item.get("type"): item for item in conditions}
        for kind in _KUBELET_CONDITIONS:
            condition = known.get(kind)
            if condition is None:
                conditions.append(_unknown(kind, now, never=True))
            elif condition.get("status") != "Unknown":
                if kind == "Ready":
                    _LOG.warning("node_unreachable", node=node["metadata"]["name"], silent_s=self._grace_s)
                # The time of its last heartbeat is kept.
                condition |= _unknown(kind, now, never=False)


def _unknown(kind: str, now: str, *, never: bool) -> dict[str, Any]:
    reason = "NodeStatusNeverUpdated" if never else "NodeStatusUnknown"
    message = "Kubelet never posted node status." if never else "Kubelet stopped posting node status."
    return {"type": kind, "status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": now}


def _heartbeat(node: objects.Object) -> str:
    """Return the heartbeat in the status, which only a kubelet changes."""
    ready = fields.condition(node.get("status") or {}, "Ready")
    # A kubelet that returns posts Ready with another status, perhaps within the same second.
    posted = ready.get("status") if ready.get("status") != "Unknown" else ""
    return f"{ready.get('lastHeartbeatTime')} {posted}" if posted else ""


def _settle_taints(node: objects.Object, now: str) -> None:
    spec, status = node.setdefault("spec", {}), node.get("status") or {}
    wanted: set[tuple[str, str]] = set()
    if spec.get("unschedulable"):
        wanted.add((_UNSCHEDULABLE, "NoSchedule"))
    ready = fields.condition(status, "Ready").get("status")
    if ready in ("False", "Unknown"):
        key = _NOT_READY if ready == "False" else _UNREACHABLE
        wanted |= {(key, "NoSchedule"), (key, "NoExecute")}
    elif ready is None:
        # A Node that has not reported yet keeps the taint from its admission.
        wanted |= {_mark(taint) for taint in spec.get("taints") or () if taint.get("key") == _NOT_READY}
    present = spec.get("taints") or []
    kept = [taint for taint in present if taint.get("key") not in _OWNED_TAINTS or _mark(taint) in wanted]
    missing = wanted - {_mark(taint) for taint in kept}
    kept += [{"key": key, "effect": effect, "timeAdded": now} for key, effect in sorted(missing)]
    if kept != present:
        spec["taints"] = kept
    if not spec.get("taints"):
        spec.pop("taints", None)


def _mark(taint: objects.Object) -> tuple[str, str]:
    return taint.get("key", ""), taint.get("effect", "")


def admit(node: objects.Object) -> None:
    """Add the not-ready taint to a new Node, as admission does; it stays until the Node reports Ready."""
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    if (_NOT_READY, "NoSchedule") not in {_mark(taint) for taint in taints}:
        taints.append({"key": _NOT_READY, "effect": "NoSchedule"})
