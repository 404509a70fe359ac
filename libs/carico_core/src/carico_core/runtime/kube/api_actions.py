"""What CARICO writes to the API, typed: binds, Events, patches, Leases."""

import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from carico_core.domain import cluster, errors
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import bodies, instants
from carico_core.wire.kubernetes import lease as kubernetes_lease

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
EVENTS_PATH = "/apis/events.k8s.io/v1/namespaces/{namespace}/events"
LEASES_PATH = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
# As in client-go's tools/events: an Event that repeats within 6 minutes increments the count of the first one.
SERIES_NS = 360 * 10**9
# More than half of what the scheduler writes in that time at most (`CARICO_SCHEDULER_EVENTS_PER_S`): all of it may be
# about Pods that wait.
SERIES_KEPT = 4096
# A Pod is bound once, so that this Event never repeats.
_NEVER_REPEATED = frozenset({"Scheduled"})


class Api(Protocol):
    """The part of a client that an action uses."""

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None,
        content_type: str = "application/json", timeout_s: float = 10.0,
    ) -> Any:  # fmt: skip
        """Return the decoded answer."""
        ...


class BindApi(Protocol):
    """The part of a client that a bind uses: an `Api` that calls `permit` right before it sends."""

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None,
        content_type: str = "application/json", timeout_s: float = 10.0,
        permit: Callable[[], None] | None = None,
    ) -> Any:  # fmt: skip
        """Return the decoded answer. If `permit` raises, nothing is sent."""
        ...


async def bind(
    api: BindApi,
    *,
    namespace: str,
    name: str,
    uid: str,
    node: str,
    timeout_s: float = 10.0,
    permit: Callable[[], None] | None = None,
    resource_version: str = "",
    by: str = "",
) -> None:
    """Bind the Pod to the node; `by` names the bind, which the Pod shows from then on.

    Raises `Conflict` (already bound, another Pod with that name, or changed since `resource_version`), `NotFound`,
    `ApiUnavailable` (the Pod may be bound nevertheless, which the watch will show), and what `permit` raises (the bind
    was not sent).
    """
    body = bodies.binding_body(
        namespace=namespace, name=name, uid=uid, node=node, resource_version=resource_version, by=by
    )  # fmt: skip
    path = f"{pod_path(namespace, name)}/binding"
    await api.request("POST", path, body=body, timeout_s=timeout_s, permit=permit)


async def patch_pod_status(
    api: Api, *, namespace: str, name: str, uid: str, status: Mapping[str, Any], resource_version: str = ""
) -> Any:
    """Return the Pod, with `status` merged into its own (conditions by type).

    Raises `Conflict` if the Pod has another UID, or has changed since `resource_version` (empty: whatever its version).
    """
    metadata = {"uid": uid, **({"resourceVersion": resource_version} if resource_version else {})}
    body = {"metadata": metadata, "status": status}
    try:
        return await api.request(
            "PATCH", f"{pod_path(namespace, name)}/status", body=body, content_type=STRATEGIC_PATCH
        )  # fmt: skip
    except errors.Invalid as error:
        # In a patch, the UID is not a precondition but a field that may not change, which gives a different error.
        if "metadata.uid" not in error.message:
            raise
        raise errors.Conflict(
            status=error.status, reason=error.reason, message=error.message, request=error.request
        ) from error


async def delete_pod(
    api: BindApi, *, namespace: str, name: str, uid: str, timeout_s: float, permit: Callable[[], None] | None
) -> None:
    """Delete the Pod with its own grace period.

    Raises `NotFound`, `Conflict` if the Pod has another UID, and what `permit` raises (nothing was sent).
    """
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
    await api.request("DELETE", pod_path(namespace, name), body=body, timeout_s=timeout_s, permit=permit)


async def evict_pod(api: BindApi, *, namespace: str, name: str, uid: str, permit: Callable[[], None] | None) -> None:
    """Evict the Pod if its PodDisruptionBudgets allow that.

    Raises `ApiBusy` if they do not now, `NotFound`, or `Conflict` if the Pod has another UID.
    https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
    """
    body = {
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }  # fmt: skip
    await api.request("POST", f"{pod_path(namespace, name)}/eviction", body=body, permit=permit)


async def patch_node_status(api: Api, *, node: str, status: Mapping[str, Any]) -> Any:
    """Return the Node, with `status` merged into its own (conditions by type)."""
    path, body = f"/api/v1/nodes/{node}/status", {"status": status}
    return await api.request("PATCH", path, body=body, content_type=STRATEGIC_PATCH)


async def patch_node(api: Api, *, node: str, patch: Mapping[str, Any]) -> Any:
    """Return the Node, with `patch` (a JSON merge patch) in it."""
    return await api.request("PATCH", f"/api/v1/nodes/{node}", body=patch, content_type=MERGE_PATCH)


async def get_lease(api: Api, *, namespace: str, name: str, timeout_s: float = 10.0) -> kubernetes_lease.Lease | None:
    """Return the Lease, or None if there is none. Raises `ApiUnavailable`, also if it cannot be read."""
    try:
        found = await api.request("GET", f"{LEASES_PATH.format(namespace=namespace)}/{name}", timeout_s=timeout_s)
    except errors.NotFound:
        return None
    return _lease(found)


async def create_lease(api: Api, lease: kubernetes_lease.Lease, *, timeout_s: float = 10.0) -> kubernetes_lease.Lease:
    """Return the Lease as created. Raises `Conflict` if it exists already."""
    body = kubernetes_lease.lease_body(dataclasses.replace(lease, resource_version=""))
    path = LEASES_PATH.format(namespace=lease.namespace)
    return _lease(await api.request("POST", path, body=body, timeout_s=timeout_s))


async def update_lease(api: Api, lease: kubernetes_lease.Lease, *, timeout_s: float = 10.0) -> kubernetes_lease.Lease:
    """Return the Lease as updated. Raises `Conflict` if `lease.resource_version` is not the current one."""
    path = f"{LEASES_PATH.format(namespace=lease.namespace)}/{lease.name}"
    return _lease(await api.request("PUT", path, body=kubernetes_lease.lease_body(lease), timeout_s=timeout_s))


class EventRecorder:
    """Writes Events about Pods; a repetition within minutes increments the first one's count."""

    def __init__(self, api: Api, *, clock: clocks.Clock, controller: str, instance: str) -> None:
        self._api = api
        self._clock = clock
        self._controller = controller
        self._instance = instance
        self._series: collections.OrderedDict[tuple[str, ...], _Series] = collections.OrderedDict()
        self._written = 0

    async def record(self, pod: cluster.Pod, *, reason: str, action: str, note: str, warning: bool = False) -> None:
        """Write the Event. Raises `ApiError` or `ApiUnavailable`: the caller decides whether it may be lost."""
        # As much of the note as an Event holds: keys are bounded in bytes, too.
        key = (pod.uid, reason, action, note[: bodies.NOTE_LIMIT_BYTES])
        now_ns = self._clock.wall_ns()
        series = self._series.get(key)
        if series is not None and now_ns - series.last_ns < SERIES_NS and await self._count_up(pod, series, now_ns):
            self._series.move_to_end(key)
            return
        name = self._name(pod.name, now_ns)
        body = bodies.event_body(
            {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            name=name,
            reason=reason,
            action=action,
            note=note,
            controller=self._controller,
            instance=self._instance,
            at_ns=now_ns,
            warning=warning,
        )
        await self._api.request("POST", EVENTS_PATH.format(namespace=pod.namespace), body=body)
        if reason not in _NEVER_REPEATED:
            self._series[key] = _Series(name=name, count=1, last_ns=now_ns)
            self._series.move_to_end(key)
        self._forget_old(now_ns)

    def _forget_old(self, now_ns: int) -> None:
        """Drop what can no longer be counted up, and what is too much."""
        while self._series:
            oldest = next(iter(self._series))
            if len(self._series) <= SERIES_KEPT and now_ns - self._series[oldest].last_ns < SERIES_NS:
                return
            del self._series[oldest]

    async def _count_up(self, pod: cluster.Pod, series: "_Series", now_ns: int) -> bool:
        """Return False if the Event has expired."""
        count = {"count": series.count + 1, "lastObservedTime": instants.format_instant(now_ns)}
        path = f"{EVENTS_PATH.format(namespace=pod.namespace)}/{series.name}"
        try:
            await self._api.request("PATCH", path, body={"series": count}, content_type=MERGE_PATCH)
        except errors.NotFound:
            return False
        series.count += 1
        series.last_ns = now_ns
        return True

    def _name(self, pod: str, now_ns: int) -> str:
        """Return <pod>.<hex>, the usual form; it is made here, because a generateName may not end in a dot."""
        self._written += 1
        return f"{pod[:220].rstrip('.-')}.{now_ns:x}{self._written & 0xFF:02x}"


@dataclasses.dataclass(slots=True, kw_only=True)
class _Series:
    """An Event that was written, and how often it occurred."""

    name: str
    count: int
    last_ns: int


def pod_path(namespace: str, name: str) -> str:
    """Return the path of a Pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _lease(obj: Any) -> kubernetes_lease.Lease:
    try:
        return kubernetes_lease.parse_lease(obj)
    except (ValueError, AttributeError) as error:
        raise errors.ApiUnavailable(f"a Lease of the API cannot be read: {error}") from error
