"""What a node runs of a Pod: its containers as commands with environment and limits, and what it cannot give them."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_core.domain import quantity
from carico_local.node import handlers, sources

Object = Mapping[str, Any]

# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
GRACE_S = 30.0
_LABEL_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What is asked of a container, and how often."""

    handler: handlers.Handler
    initial_delay_s: float
    period_s: float
    timeout_s: float
    failures: int
    successes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """One container: its command, environment (literal, or from elsewhere) and limits (cores, bytes)."""

    name: str
    image: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str | None, str | sources.ResourceRef | None], ...]
    cwd: str
    limit_cores: float | None
    limit_bytes: int | None
    log_as_message: bool
    startup: Probe | None
    readiness: Probe | None
    liveness: Probe | None
    post_start: handlers.Handler | None
    pre_stop: handlers.Handler | None
    mounts: tuple[sources.Mount, ...]
    # An init container that runs beside the others, as long as they do.
    is_sidecar: bool
    # What its variables refer to and is not there; empty where nothing is missing.
    missing: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """One Pod as its node sees it."""

    namespace: str
    name: str
    uid: str
    node_name: str
    service_account: str
    node_selector: Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    restart_policy: str
    grace_s: float
    containers: tuple[ContainerSpec, ...]
    init_containers: tuple[ContainerSpec, ...]
    qos_class: str
    # What the Pod asks for and an emulated node does not have, in words.
    unsupported: tuple[str, ...]
    # Volumes that are made of what is not there.
    unmounted: tuple[str, ...]

    @property
    def key(self) -> str:
        """namespace/name"""
        return f"{self.namespace}/{self.name}"

    @property
    def limit_cores(self) -> float | None:
        """The Pod's CPU limit: the sum where every container has one."""
        limits = [container.limit_cores for container in self.containers]
        return None if None in limits else sum(limit for limit in limits if limit is not None)

    @property
    def limit_bytes(self) -> int | None:
        """The Pod's memory limit: the sum where every container has one."""
        limits = [container.limit_bytes for container in self.containers]
        return None if None in limits else sum(limit for limit in limits if limit is not None)


def parse(pod: Object) -> PodSpec:
    """The Pod of an API object. Raises `ValueError` where it cannot be read."""
    try:
        return _parse(pod)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"Pod cannot be read: {error!r}") from error


def _parse(pod: Object) -> PodSpec:
    metadata, spec = pod["metadata"], pod["spec"]
    items = {item["name"]: item for item in _all_containers(spec)}
    volumes = sources.empty_dirs(spec)
    containers = tuple(_container(item, items, volumes) for item in spec["containers"])
    init_containers = tuple(
        dataclasses.replace(_container(item, items, volumes), is_sidecar=item.get("restartPolicy") == "Always")
        for item in spec.get("initContainers") or ()
    )
    without = tuple(sources.unmounted(spec))
    return PodSpec(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node_name=spec["nodeName"],
        service_account=spec.get("serviceAccountName") or "default",
        node_selector=spec.get("nodeSelector") or {},
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        restart_policy=spec.get("restartPolicy") or "Always",
        grace_s=_grace_s(metadata, spec),
        containers=containers,
        init_containers=init_containers,
        qos_class=(pod.get("status") or {}).get("qosClass") or qos_class(spec),
        unsupported=tuple(_unsupported(spec)),
        unmounted=without,
    )


def _grace_s(metadata: Object, spec: Object) -> float:
    """Seconds from SIGTERM to SIGKILL: what the deletion says, else the Pod; at least 1, as the kubelet has it."""
    for value in (metadata.get("deletionGracePeriodSeconds"), spec.get("terminationGracePeriodSeconds")):
        if value is not None:
            return max(1.0, float(value))
    return GRACE_S


def _container(item: Object, items: Mapping[str, Object], volumes: frozenset[str]) -> ContainerSpec:
    limits = (item.get("resources") or {}).get("limits") or {}
    lifecycle = item.get("lifecycle") or {}
    ports = _ports(item)
    return ContainerSpec(
        name=item["name"],
        image=item.get("image") or "",
        command=(*(item.get("command") or ()), *(item.get("args") or ())) if item.get("command") else (),
        env=tuple(_variables(item, items)),
        cwd=item.get("workingDir") or "/",
        limit_cores=quantity.parse_quantity(limits["cpu"]) if "cpu" in limits else None,
        limit_bytes=round(quantity.parse_quantity(limits["memory"])) if "memory" in limits else None,
        log_as_message=item.get("terminationMessagePolicy") == "FallbackToLogsOnError",
        startup=_probe(item, "startupProbe"),
        readiness=_probe(item, "readinessProbe"),
        liveness=_probe(item, "livenessProbe"),
        post_start=handlers.parse(lifecycle.get("postStart"), ports),
        pre_stop=handlers.parse(lifecycle.get("preStop"), ports),
        mounts=sources.mounts(item, volumes),
        is_sidecar=False,
        missing=sources.missing(item),
    )


def _variables(
    item: Object, items: Mapping[str, Object]
) -> Iterator[tuple[str, str | None, str | sources.ResourceRef | None]]:
    """Name, literal value, other source: one of the latter is None. What is optional and missing is left out."""
    for entry in item.get("env") or ():
        source = entry.get("valueFrom") or {}
        if not source:
            yield entry["name"], str(entry.get("value") or ""), None
        elif field := (source.get("fieldRef") or {}).get("fieldPath"):
            yield entry["name"], None, field
        elif reference := source.get("resourceFieldRef"):
            yield entry["name"], None, sources.resource_ref(reference, items, item["name"])


def _ports(item: Object) -> dict[str, int]:
    return {entry["name"]: entry["containerPort"] for entry in item.get("ports") or () if entry.get("name")}


def _probe(item: Object, key: str) -> Probe | None:
    probe = item.get(key) or {}
    handler = handlers.parse(probe, _ports(item))
    if handler is None:
        return None
    return Probe(
        handler=handler,
        initial_delay_s=float(probe.get("initialDelaySeconds") or 0),
        period_s=float(probe.get("periodSeconds") or 10),
        timeout_s=float(probe.get("timeoutSeconds") or 1),
        failures=int(probe.get("failureThreshold") or 3),
        successes=int(probe.get("successThreshold") or 1),
    )


def _unsupported(spec: Object) -> Iterator[str]:
    for item in _all_containers(spec):
        yield from _unsupported_of(item)
    if spec.get("activeDeadlineSeconds"):
        yield "activeDeadlineSeconds"


def _unsupported_of(item: Object) -> Iterator[str]:
    name = item["name"]
    if not item.get("command"):
        yield f"container {name!r} without a command (no image is pulled here, so no entrypoint is known)"
    for entry in item.get("env") or ():
        field = ((entry.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        if field is not None and not _is_known_field(field):
            yield f"source of variable {entry['name']!r} of container {name!r}"
    for key in ("startupProbe", "readinessProbe", "livenessProbe"):
        if item.get(key) and handlers.parse(item[key], _ports(item)) is None:
            yield f"{key} of container {name!r} (httpGet, tcpSocket and exec alone)"


def _is_known_field(path: str | None) -> bool:
    return path in _FIELDS or (path is not None and _LABEL_FIELD.fullmatch(path) is not None)


_FIELDS = frozenset(
    {
        "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "status.podIP", "status.podIPs",
        "status.hostIP", "status.hostIPs", "spec.serviceAccountName",
    }
)  # fmt: skip


def field_value(spec: PodSpec, path: str, *, pod_ip: str, host_ip: str) -> str:
    """The value of a field that an environment variable may refer to; empty where it is not known."""
    chosen = _LABEL_FIELD.fullmatch(path)
    if chosen:
        return (spec.labels if chosen[1] == "labels" else spec.annotations).get(chosen[2], "")
    return {
        "metadata.name": spec.name,
        "metadata.namespace": spec.namespace,
        "metadata.uid": spec.uid,
        "spec.nodeName": spec.node_name,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "spec.serviceAccountName": spec.service_account,
    }.get(path, "")


def environment(
    spec: PodSpec, container: ContainerSpec, *, base: Mapping[str, str], pod_ip: str, host_ip: str,
    node: Mapping[str, float] | None = None,
) -> dict[str, str]:  # fmt: skip
    """The variables of a container: the node's, then its own, each of which may refer to those before it.

    `node`: amounts of the whole node, for limits that are not set.
    """
    variables = dict(base)
    for name, literal, source in container.env:
        if isinstance(source, sources.ResourceRef):
            variables[name] = sources.amount(source, node or {})
        elif source is not None:
            variables[name] = field_value(spec, source, pod_ip=pod_ip, host_ip=host_ip)
        else:
            variables[name] = expand(literal or "", variables)
    return variables


def expand(text: str, variables: Mapping[str, str]) -> str:
    """`text` with each $(NAME) that is known replaced; $$ stands for $.

    >>> expand("$(A) $(B) $$(A)", {"A": "1"})
    '1 $(B) $(A)'
    """

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort: https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/"""
    resources = [item.get("resources") or {} for item in _all_containers(spec)]
    if not any(entry.get("requests") or entry.get("limits") for entry in resources):
        return "BestEffort"
    return "Guaranteed" if all(_is_guaranteed(entry) for entry in resources) else "Burstable"


def _all_containers(spec: Object) -> Sequence[Object]:
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def _is_guaranteed(resources: Object) -> bool:
    limits = resources.get("limits") or {}
    requests = {**limits, **(resources.get("requests") or {})}
    return all(
        key in limits and quantity.parse_quantity(limits[key]) == quantity.parse_quantity(requests[key])
        for key in ("cpu", "memory")
    )
