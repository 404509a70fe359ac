"""The columns that `kubectl get` prints, and an object's cells in them.

Source: k8s.io/kubernetes/pkg/printers/internalversion/printers.go.
"""

from collections.abc import Callable
from typing import Any

from carico_core.wire.kubernetes import object_fields as fields
from carico_local.api.model import objects

Row = list[Any]
_ROLE_LABEL = "node-role.kubernetes.io/"


def columns(storage: str) -> list[dict[str, Any]]:
    """Return the column definitions of a kind."""
    return _COLUMNS[storage]


def cells(storage: str, data: objects.Object, now_ns: int) -> Row:
    """Return the cells of one object, in the order of the columns."""
    return _CELLS[storage](data, now_ns)


def duration(seconds: float) -> str:
    """Format a length of time in at most two units, as kubectl prints ages.

    >>> [duration(s) for s in (5, 150, 3 * 3600 + 60, 400 * 86400)]
    ['5s', '2m30s', '3h1m', '400d']
    """
    total_s = int(seconds)
    if total_s < 120:
        return f"{max(total_s, 0)}s"
    minutes = total_s // 60
    if minutes < 10:
        return f"{minutes}m{total_s % 60}s" if total_s % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    return f"{years}y{days % 365}d" if days % 365 and years < 8 else f"{years}y"


def _column(name: str, description: str, *, kind: str = "string", wide: bool = False) -> dict[str, Any]:
    form = "name" if name == "Name" else ""
    return {"name": name, "type": kind, "format": form, "description": description, "priority": int(wide)}


def _age(text: str | None, now_ns: int) -> str:
    if not text:
        return "<unknown>"
    return duration(now_ns / 1e9 - objects.parse_timestamp(text).timestamp())


def _created(data: objects.Object, now_ns: int) -> str:
    return _age(data["metadata"].get("creationTimestamp"), now_ns)


def pod_status(pod: objects.Object) -> str:
    """Return the status that kubectl shows for a Pod: its phase, or the reason why it does not run."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase", "Unknown")
    if any(item.get("reason") == "SchedulingGated" for item in status.get("conditions") or ()):
        reason = "SchedulingGated"
    running = False
    for container in reversed(status.get("containerStatuses") or ()):
        reason = _container_word(container.get("state") or {}) or reason
        running = running or (bool(container.get("ready")) and "running" in (container.get("state") or {}))
    if reason == "Completed" and running:
        reason = "Running" if fields.is_ready(status) else "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        terminal = status.get("phase") in ("Succeeded", "Failed")
        return reason if terminal else "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(reason)


def _container_word(state: objects.Object) -> str:
    if waiting := state.get("waiting"):
        return str(waiting.get("reason", ""))
    if ended := state.get("terminated"):
        if ended.get("reason"):
            return str(ended["reason"])
        return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
    return ""


def _pod(pod: objects.Object, now_ns: int) -> Row:
    status, spec = pod.get("status") or {}, pod["spec"]
    containers = status.get("containerStatuses") or []
    ready = sum(1 for item in containers if item.get("ready") and "running" in (item.get("state") or {}))
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    held = {item["type"] for item in status.get("conditions") or () if item.get("status") == "True"}
    return [
        pod["metadata"]["name"],
        f"{ready}/{len(spec.get('containers') or ())}",
        pod_status(pod),
        _restarts(containers, now_ns),
        _created(pod, now_ns),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"{sum(gate in held for gate in gates)}/{len(gates)}" if gates else "<none>",
    ]


def _restarts(containers: list[objects.Object], now_ns: int) -> str:
    count = sum(item.get("restartCount", 0) for item in containers)
    ends = [((item.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for item in containers]
    latest = max(filter(None, ends), default=None)
    return f"{count} ({_age(latest, now_ns)} ago)" if count and latest else str(count)


def _node(node: objects.Object, now_ns: int) -> Row:
    status, labels = node.get("status") or {}, node["metadata"].get("labels") or {}
    ready = fields.condition(status, "Ready")
    words = ["Unknown" if not ready else "Ready" if ready.get("status") == "True" else "NotReady"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    roles = sorted(key.removeprefix(_ROLE_LABEL) for key in labels if key.startswith(_ROLE_LABEL))
    addresses = {item.get("type"): item.get("address") for item in status.get("addresses") or ()}
    info = status.get("nodeInfo") or {}
    return [
        node["metadata"]["name"],
        ",".join(words),
        ",".join(roles) or "<none>",
        _created(node, now_ns),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or "<none>",
        addresses.get("ExternalIP") or "<none>",
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _event(event: objects.Object, now_ns: int) -> Row:
    about, series, source = event.get("involvedObject") or {}, event.get("series") or {}, event.get("source") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or first
    count = series.get("count") or event.get("count") or 1
    seen = _age(last, now_ns)
    component = source.get("component") or event.get("reportingComponent", "")
    host = source.get("host") or event.get("reportingInstance", "")
    return [
        f"{seen} (x{count} over {_age(first, now_ns)})" if count > 1 else seen,
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        event.get("message", "").strip(),
        _age(first, now_ns),
        count,
        event["metadata"]["name"],
    ]


def _lease(lease: objects.Object, now_ns: int) -> Row:
    holder = (lease.get("spec") or {}).get("holderIdentity", "")
    return [lease["metadata"]["name"], holder, _created(lease, now_ns)]


def _namespace(namespace: objects.Object, now_ns: int) -> Row:
    phase = (namespace.get("status") or {}).get("phase", "")
    return [namespace["metadata"]["name"], phase, _created(namespace, now_ns)]


def _service_account(account: objects.Object, now_ns: int) -> Row:
    return [account["metadata"]["name"], len(account.get("secrets") or ()), _created(account, now_ns)]


def _config_map(config: objects.Object, now_ns: int) -> Row:
    keys = len(config.get("data") or ()) + len(config.get("binaryData") or ())
    return [config["metadata"]["name"], keys, _created(config, now_ns)]


def _secret(secret: objects.Object, now_ns: int) -> Row:
    name, kind = secret["metadata"]["name"], secret.get("type", "")
    return [name, kind, len(secret.get("data") or ()), _created(secret, now_ns)]


_NAME = _column("Name", "Name must be unique within a namespace.")
_AGE = _column("Age", "Time since the object was created.")
_CELLS: dict[str, Callable[[objects.Object, int], Row]] = {
    "pods": _pod,
    "nodes": _node,
    "events": _event,
    "leases": _lease,
    "namespaces": _namespace,
    "serviceaccounts": _service_account,
    "configmaps": _config_map,
    "secrets": _secret,
}
_COLUMNS: dict[str, list[dict[str, Any]]] = {
    "pods": [
        _NAME,
        _column("Ready", "The aggregate readiness state of this pod for accepting traffic."),
        _column("Status", "The aggregate status of the containers in this pod."),
        _column("Restarts", "How often the containers of this pod have been restarted, and when last."),
        _AGE,
        _column("IP", "IP address allocated to the pod.", wide=True),
        _column("Node", "The node that the pod is bound to.", wide=True),
        _column("Nominated Node", "The node on which preemption makes room for the pod.", wide=True),
        _column("Readiness Gates", "The readiness gates that hold.", wide=True),
    ],
    "nodes": [
        _NAME,
        _column("Status", "The status of the node."),
        _column("Roles", "The roles of the node."),
        _AGE,
        _column("Version", "Kubelet version reported by the node."),
        _column("Internal-IP", "The address that the cluster reaches the node at.", wide=True),
        _column("External-IP", "The address that others reach the node at.", wide=True),
        _column("OS-Image", "The operating system reported by the node.", wide=True),
        _column("Kernel-Version", "The kernel reported by the node.", wide=True),
        _column("Container-Runtime", "The container runtime reported by the node.", wide=True),
    ],
    "events": [
        _column("Last Seen", "Time since the event was last observed."),
        _column("Type", "Normal or Warning."),
        _column("Reason", "Why the event was emitted, as one word."),
        _column("Object", "The object that the event is about."),
        _column("Subobject", "The part of the object that the event is about.", wide=True),
        _column("Source", "The component that reported the event.", wide=True),
        _column("Message", "A description of what happened."),
        _column("First Seen", "Time since the event was first observed.", wide=True),
        _column("Count", "How often the event was observed.", kind="integer", wide=True),
        _column("Name", "Name must be unique within a namespace.", wide=True),
    ],
    "leases": [_NAME, _column("Holder", "Who holds the lease."), _AGE],
    "namespaces": [_NAME, _column("Status", "The status of the namespace."), _AGE],
    "serviceaccounts": [_NAME, _column("Secrets", "How many secrets the account names.", kind="integer"), _AGE],
    "configmaps": [_NAME, _column("Data", "How many keys there are."), _AGE],
    "secrets": [_NAME, _column("Type", "What its data is for."), _column("Data", "How many keys there are."), _AGE],
}
