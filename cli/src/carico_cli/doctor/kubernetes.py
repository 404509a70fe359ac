"""Checks the Kubernetes API, its nodes, and Pods that wait for CARICO."""

import asyncio
import contextlib
import dataclasses
import math
import re
from collections.abc import Mapping, Set
from typing import Any

from carico_cli.doctor import findings, rights
from carico_cli.explain import containers, words
from carico_core.domain import cluster, errors
from carico_core.wire.kubernetes import api_objects

# Node-bound tokens, which identify an agent's node to the auth callout, are on by default from this version.
NODE_TOKENS_FROM = (1, 30)
# Sidecars, and whatever else the scheduler reads, are on by default from this version; deploy/README.md says the same.
OLDEST = (1, 29)
# https://docs.kernel.org/accounting/psi.html: in the kernel since 4.20; a distribution may have switched it off.
PSI_FROM = (4, 20)
WAITING_LONG_S = 60.0
# Why a container waits that is about to start: its image is pulled, its volumes are mounted. A missing volume has the
# same reason, so that after as long as the alerts wait (deploy/observe/rules) the container is reported.
_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
STARTS_WITHIN_S = 600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The findings about the API, and its nodes for the checks of the bus."""

    findings: list[findings.Finding]
    nodes: list[cluster.Node]


async def check(
    api: rights.Api, namespace: str, *, now_s: float, scheduler_names: Set[str] = frozenset({cluster.SCHEDULER_NAME})
) -> Seen:
    """Check the API, and the Pods with one of these schedulerNames.

    Raises `ApiUnavailable`; `ApiError` where it does not report its version.
    """
    version = await api.request("GET", "/version")
    found = [_version(version)]
    found += await rights.check(api, namespace)
    try:
        objects = (await api.request("GET", "/api/v1/nodes"))["items"]
    except errors.Forbidden as error:
        do = "use a kubeconfig whose user may list nodes: otherwise neither PSI nor agents can be checked"
        return Seen(
            findings=[*found, findings.fail("nodes", str(error), do), *await _pending(api, now_s, scheduler_names)],
            nodes=[],
        )
    pressure = dict(await asyncio.gather(*(_pressure(api, item) for item in objects)))
    found += _nodes(objects, pressure)
    found += await _pending(api, now_s, scheduler_names)
    nodes = [node for item in objects if (node := _parsed(item)) is not None]
    return Seen(findings=found, nodes=nodes)


def _version(said: Mapping[str, Any]) -> findings.Finding:
    text = str(said.get("gitVersion", "?"))
    got = _numbers(text)
    if got is None:
        return findings.warn("Kubernetes", f"version {text!r} cannot be read", "CARICO is tested with 1.36")
    if got < OLDEST:
        return findings.fail("Kubernetes", f"{text} is too old", f"upgrade to {_dotted(OLDEST)} or later")
    if got < NODE_TOKENS_FROM:
        return findings.warn(
            "Kubernetes",
            f"{text}: tokens do not name their node before {_dotted(NODE_TOKENS_FROM)}",
            "use static NATS identities (docs/security.md) instead of the auth callout, or upgrade",
        )
    return findings.ok("Kubernetes", text)


async def _pressure(api: rights.Api, node: Mapping[str, Any]) -> tuple[str, bool | None]:
    """Return the node's name, and True where its kubelet reports PSI; None where that is not known."""
    name = str(node["metadata"]["name"])
    try:
        summary = await api.request("GET", f"/api/v1/nodes/{name}/proxy/stats/summary")
    except (errors.ApiError, errors.ApiUnavailable):
        return name, None
    cpu = summary.get("node", {}).get("cpu", {}) if isinstance(summary, dict) else {}
    # KubeletPSI: https://kubernetes.io/docs/reference/instrumentation/understand-psi-metrics/
    return name, True if cpu.get("psi") else None


def _nodes(objects: list[dict[str, Any]], pressure: Mapping[str, bool | None]) -> list[findings.Finding]:
    if not objects:
        return [findings.fail("nodes", "the cluster has none", "add nodes to the cluster first")]
    unready, foreign, old, seen = [], [], [], []
    for item in objects:
        name, info = str(item["metadata"]["name"]), item.get("status", {}).get("nodeInfo", {})
        conditions = item.get("status", {}).get("conditions", [])
        if not any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
            unready.append(name)
        if info.get("operatingSystem") not in ("linux", "", None):
            foreign.append(name)
        elif (kernel := _numbers(str(info.get("kernelVersion", "")))) is not None and kernel < PSI_FROM:
            old.append(f"{name} ({info['kernelVersion']})")
        elif pressure.get(name):
            seen.append(name)
    found = [findings.ok("nodes", f"{len(objects)}, of which {len(objects) - len(unready)} ready")]
    if unready:
        found.append(
            findings.warn(
                "nodes",
                f"not ready: {findings.names(unready)}",
                "they get no Pods until they are ready: `kubectl describe node NODE` says why",
            )
        )
    if foreign:
        do = "an agent needs Linux: keep CARICO's Pods off these nodes with a node selector"
        found.append(findings.warn("nodes", f"not Linux: {findings.names(foreign)}", do))
    if old:
        do = f"pressure (PSI) needs kernel {_dotted(PSI_FROM)} or later; on these nodes only utilisation is used"
        found.append(findings.warn("PSI", f"no PSI in the kernel of {findings.names(old)}", do))
    elif seen:
        found.append(findings.ok("PSI", f"reported by the kubelets of {len(seen)} of {len(objects)} nodes"))
    return found


async def _pending(api: rights.Api, now_s: float, scheduler_names: Set[str]) -> list[findings.Finding]:
    """Return the findings about Pods that wait for a node, and about those that their node does not start."""
    try:
        listed = await api.request("GET", "/api/v1/pods", params={"fieldSelector": "status.phase=Pending"})
    except errors.Forbidden as error:
        return [findings.skip("waiting Pods", str(error))]
    waiting, stuck = [], []
    for item in listed["items"]:
        try:
            pod = api_objects.parse_pod(item)
        except ValueError:
            continue
        if pod.scheduler_name not in scheduler_names or pod.scheduling_gates:
            continue
        if pod.node_name is not None:
            stuck += [f"{pod.key} on {pod.node_name} ({why})" for why in _why_not_started(item, now_s)]
        elif now_s - pod.created_at_s > WAITING_LONG_S:
            waiting.append(pod.key)
    return [_waiting(waiting), *_not_started(stuck)]


def _waiting(pods: list[str]) -> findings.Finding:
    what = "waiting Pods"
    if not pods:
        return findings.ok(what, f"no Pod has waited for CARICO for more than {WAITING_LONG_S:.0f} s")
    return findings.warn(
        what,
        f"waiting for more than {WAITING_LONG_S:.0f} s: {findings.names(pods)}",
        "`carico explain NAMESPACE/POD` says why, for each node, and what could help; `kubectl describe pod` shows the "
        "Event; if there is none, no scheduler of CARICO is running",
    )


def _why_not_started(pod: Mapping[str, Any], now_s: float) -> list[str]:
    """Return the first reason for which a container has not started, unless it may still be about to start."""
    status = pod.get("status") or {}
    waits = [fact["reason"] for fact in containers.of_status(status) if fact["state"] == "waits"]
    stuck = [reason for reason in waits if reason not in _STARTING]
    placed_s = _placed_s(status)
    if stuck or not waits or _has_begun(status) or now_s - placed_s <= STARTS_WITHIN_S:
        return stuck[:1]
    return [f"{waits[0] or 'waiting'} for {words.ago(now_s - placed_s)}"]


def _has_begun(status: Mapping[str, Any]) -> bool:
    """Return whether an init container runs or has run: the containers after it wait for that."""
    states = [each.get("state") or {} for each in status.get("initContainerStatuses") or ()]
    return any("running" in state or "terminated" in state for state in states)


def _placed_s(status: Mapping[str, Any]) -> float:
    """Return when the Pod was bound, in Unix seconds; +inf where that is not known."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            with contextlib.suppress(ValueError, TypeError):
                return api_objects.parse_instant(condition.get("lastTransitionTime"))
    return math.inf


def _not_started(pods: list[str]) -> list[findings.Finding]:
    if not pods:
        return []
    do = (
        "each may start at any moment, so its room stays reserved: fix its image, key or volume, or delete it; "
        "`kubectl describe pod` shows the node's Events"
    )
    return [findings.warn("Pods not started", f"their nodes cannot start them: {findings.names(pods)}", do)]


def _parsed(item: Mapping[str, Any]) -> cluster.Node | None:
    try:
        return api_objects.parse_node(item)
    except ValueError:
        return None


def _numbers(text: str) -> tuple[int, int] | None:
    found = re.match(r"v?(\d+)\.(\d+)", text)
    return None if found is None else (int(found[1]), int(found[2]))


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
