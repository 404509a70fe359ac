"""A container as a node runs it: command, environment, limits, probes; and what the node does not support."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from carico_core.domain import amounts
from carico_local.node.containers import handlers
from carico_local.node.spec import sources

Object = Mapping[str, Any]
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_LIFECYCLE = ("postStart", "preStop", "stopSignal")
_VARIABLE_SOURCES = frozenset({"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"})
# The source of a variable that is not a literal; a string is a field of the Pod.
Source = str | sources.ResourceRef | sources.KeyRef


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A handler, how often it runs, and its thresholds."""

    handler: handlers.Handler
    initial_delay_s: float
    period_s: float
    timeout_s: float
    failures: int
    successes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """One container. `env`: name, literal value, other source; one of the latter is None."""

    name: str
    image: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str | None, Source | None], ...]
    # Objects whose keys all become variables, before `env`.
    env_from: tuple[sources.WholeRef, ...]
    cwd: str
    limit_cores: float | None
    limit_bytes: int | None
    request_cores: float
    request_bytes: float
    log_as_message: bool
    startup: Probe | None
    readiness: Probe | None
    liveness: Probe | None
    mounts: tuple[sources.Mount, ...]
    # From the container's securityContext, or else the Pod's.
    run_as_user: int | None
    run_as_group: int | None

    @property
    def reads_objects(self) -> bool:
        """True where at least one variable comes from a ConfigMap or Secret."""
        return bool(self.env_from) or any(isinstance(source, sources.KeyRef) for _, _, source in self.env)


def parse(item: Object, items: Mapping[str, Object], volumes: frozenset[str], security: Object) -> ContainerSpec:
    """Parse a container.

    `items`: all containers of the Pod by name, `volumes`: names of the volumes that it may mount, `security`: the Pod's
    securityContext.
    """
    security = {**security, **(item.get("securityContext") or {})}
    limits = (item.get("resources") or {}).get("limits") or {}
    requests = {**limits, **((item.get("resources") or {}).get("requests") or {})}
    return ContainerSpec(
        name=item["name"],
        image=item.get("image") or "",
        command=(*(item.get("command") or ()), *(item.get("args") or ())) if item.get("command") else (),
        env=tuple(_variables(item, items)),
        env_from=sources.whole_refs(item),
        cwd=item.get("workingDir") or "/",
        limit_cores=amounts.parse_quantity(limits["cpu"]) if "cpu" in limits else None,
        limit_bytes=round(amounts.parse_quantity(limits["memory"])) if "memory" in limits else None,
        request_cores=amounts.parse_quantity(requests.get("cpu", 0)),
        request_bytes=amounts.parse_quantity(requests.get("memory", 0)),
        log_as_message=item.get("terminationMessagePolicy") == "FallbackToLogsOnError",
        startup=_probe(item, "startupProbe"),
        readiness=_probe(item, "readinessProbe"),
        liveness=_probe(item, "livenessProbe"),
        mounts=sources.mounts(item, volumes),
        run_as_user=security.get("runAsUser"),
        run_as_group=security.get("runAsGroup"),
    )


def _variables(item: Object, items: Mapping[str, Object]) -> Iterator[tuple[str, str | None, Source | None]]:
    """Yield name, literal value, other source: one of the latter is None."""
    for entry in item.get("env") or ():
        source = entry.get("valueFrom") or {}
        if not source:
            yield entry["name"], str(entry.get("value") or ""), None
        elif field := (source.get("fieldRef") or {}).get("fieldPath"):
            yield entry["name"], None, field
        elif reference := source.get("resourceFieldRef"):
            yield entry["name"], None, sources.resource_ref(reference, items, item["name"])
        elif key := sources.key_ref(source):
            yield entry["name"], None, key


def _ports(item: Object) -> dict[str, int]:
    return {entry["name"]: entry["containerPort"] for entry in item.get("ports") or () if entry.get("name")}


def _probe(item: Object, key: str) -> Probe | None:
    handler, _ = _handler(item, key)
    if handler is None:
        return None
    probe = item[key]
    return Probe(
        handler=handler,
        initial_delay_s=float(probe.get("initialDelaySeconds") or 0),
        period_s=float(probe.get("periodSeconds") or 10),
        timeout_s=float(probe.get("timeoutSeconds") or 1),
        failures=int(probe.get("failureThreshold") or 3),
        successes=int(probe.get("successThreshold") or 1),
    )


def _handler(item: Object, key: str) -> tuple[handlers.Handler | None, str]:
    """Return the handler of a probe, and why there is none for one that the container has."""
    try:
        found = handlers.parse(item.get(key), _ports(item))
    except ValueError as error:
        return None, str(error)
    return found, "is not httpGet, tcpSocket or exec" if found is None and item.get(key) else ""


def unsupported(item: Object, volumes: frozenset[str], security: Object) -> Iterator[str]:
    """Yield a clause for each feature that the container uses and an emulated node does not support.

    `volumes`: names of the volumes that it may mount, `security`: the Pod's securityContext.
    """
    name = item["name"]
    if not item.get("command"):
        # `kubectl run NAME --image IMAGE -- COMMAND` makes it arguments of the entrypoint.
        meant = ", only arguments: `kubectl run` takes a command after `--command --`" if item.get("args") else ""
        why = "emulated nodes pull no images, so its entrypoint is unknown"
        yield f"container {name!r} has no command{meant} ({why})"
    for entry in item.get("env") or ():
        source = entry.get("valueFrom") or {}
        field = (source.get("fieldRef") or {}).get("fieldPath")
        if not source.keys() <= _VARIABLE_SOURCES or (field is not None and not sources.is_known_field(field)):
            yield f"variable {entry['name']!r} of container {name!r} comes from {field or ', '.join(source)}"
    for key in _PROBES:
        if why := _handler(item, key)[1]:
            yield f"{key} of container {name!r} {why}"
    for key in _LIFECYCLE:
        if (item.get("lifecycle") or {}).get(key):
            yield f"container {name!r} has a {key}"
    if item.get("restartPolicy"):
        # In an init container: it is a sidecar.
        yield f"container {name!r} has a restartPolicy of its own"
    security = {**security, **(item.get("securityContext") or {})}
    asks = security.get("privileged") or (security.get("capabilities") or {}).get("add")
    # For another user they are without effect. An image's own user, mostly root, is not known here.
    if asks and security.get("runAsUser") is None:
        yield f"container {name!r} is privileged or adds capabilities, which need runAsUser 0 on a node of root"
    yield from _unsupported_mounts(item, volumes)


def _unsupported_mounts(item: Object, volumes: frozenset[str]) -> Iterator[str]:
    name = item["name"]
    for mount in item.get("volumeMounts") or ():
        if mount["name"] not in volumes:
            continue
        if mount.get("readOnly"):
            yield f"container {name!r} mounts volume {mount['name']!r} read-only"
        if ".." in str(mount.get("subPath") or "").split("/"):
            yield f"container {name!r} mounts volume {mount['name']!r} with '..' in subPath"
        if mount.get("subPathExpr"):
            yield f"container {name!r} mounts volume {mount['name']!r} with subPathExpr"
    if item.get("volumeDevices"):
        yield f"container {name!r} has volumeDevices"
