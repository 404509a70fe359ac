"""What the Kubernetes API says of itself, of its nodes, and of Pods that wait for CARICO."""

import asyncio
import contextlib
import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from carico_cli.doctor import findings, rights
from carico_cli.explain import containers, words
from carico_core.domain import cluster, errors
from carico_core.wire.kubernetes import api_objects

# Node-bound tokens, by which the auth-callout knows an agent's node, are on by default from here.
NODE_TOKENS_FROM = (1, 30)
# Sidecars, and all else that the scheduler reads, are on by default from here; deploy/README.md says the same.
OLDEST = (1, 29)
# https://docs.kernel.org/accounting/psi.html: in the kernel since 4.20; distributions may build it switched off.
PSI_FROM = (4, 20)
WAITING_LONG_S = 60.0
# What a container waits for that is about to start: its image is pulled, its volumes are mounted. It says no more of
# a volume that is not there, so that after as long as alerts wait (deploy/observe/rules) it is not about to start.
_ON_THE_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})
STARTS_WITHIN_S = 600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the checks of the API found, and the nodes for those of the bus."""

    findings: list[findings.Finding]
    nodes: list[cluster.Node]


async def check(api: rights.Api, namespace: str, *, now_s: float) -> Seen:
    """Check everything about the API. Raises `ApiUnavailable`; `ApiError` where it does not give its version."""
    version = await api.request("GET", "/version")
    found = [_version(version)]
    found += await rights.check(api, namespace)
    try:
        objects = (await api.request("GET", "/api/v1/nodes"))["items"]
    except errors.Forbidden as error:
        do = "use a kubeconfig whose user may list nodes: without them neither PSI nor agents can be looked for"
        return Seen(findings=[*found, findings.fail("nodes", str(error), do), *await _pending(api, now_s)], nodes=[])
    pressure = dict(await asyncio.gather(*(_pressure(api, item) for item in objects)))
    found += _nodes(objects, pressure)
    found += await _pending(api, now_s)
    nodes = [node for item in objects if (node := _parsed(item)) is not None]
    return Seen(findings=found, nodes=nodes)


def _version(said: Mapping[str, Any]) -> findings.Finding:
    text = str(said.get("gitVersion", "?"))
    got = _numbers(text)
    if got is None:
        return findings.warn("Kubernetes", f"version {text!r} cannot be read", "CARICO is tested on 1.36")
    if got < OLDEST:
        return findings.fail("Kubernetes", f"{text} is too old", f"upgrade to {_dotted(OLDEST)} or later")
    if got < NODE_TOKENS_FROM:
        return findings.warn(
            "Kubernetes",
            f"{text}: tokens do not name their node before {_dotted(NODE_TOKENS_FROM)}",
            "use static NATS identities (docs/security.md) in place of the auth-callout, or upgrade",
        )
    return findings.ok("Kubernetes", text)


async def _pressure(api: rights.Api, node: Mapping[str, Any]) -> tuple[str, bool | None]:
    """Return the node's name, and whether its kubelet shows PSI; None where that cannot be seen from here."""
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
        return [findings.fail("nodes", "there are none", "add nodes to the cluster first")]
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
                "they get no Pods until they are: `kubectl describe node NODE` says why",
            )
        )
    if foreign:
        do = "an agent needs Linux; keep Pods of CARICO off them by a node selector"
        found.append(findings.warn("nodes", f"not Linux: {findings.names(foreign)}", do))
    if old:
        do = f"pressure (PSI) needs a kernel of {_dotted(PSI_FROM)} or later; utilisation alone is used there"
        found.append(findings.warn("PSI", f"no PSI in the kernel of {findings.names(old)}", do))
    elif seen:
        found.append(findings.ok("PSI", f"shown by the kubelets of {len(seen)} nodes of {len(objects)}"))
    return found


async def _pending(api: rights.Api, now_s: float) -> list[findings.Finding]:
    """Return Pods that wait for a node, and those that their node does not start."""
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
        if pod.scheduler_name != cluster.SCHEDULER_NAME or pod.scheduling_gates:
            continue
        if pod.node_name is not None:
            stuck += [f"{pod.key} on {pod.node_name} ({why})" for why in _why_not_started(item, now_s)]
        elif now_s - pod.created_at_s > WAITING_LONG_S:
            waiting.append(pod.key)
    return [_waiting(waiting), *_not_started(stuck)]


def _waiting(pods: list[str]) -> findings.Finding:
    what = "waiting Pods"
    if not pods:
        return findings.ok(what, f"none has waited for CARICO for more than {WAITING_LONG_S:.0f} s")
    return findings.warn(
        what,
        f"waiting for more than {WAITING_LONG_S:.0f} s: {findings.names(pods)}",
        "`carico explain NAMESPACE/POD` says why, by node, and what could help; `kubectl describe pod` has the Event: "
        f"without one no scheduler {cluster.SCHEDULER_NAME!r} runs",
    )


def _why_not_started(pod: Mapping[str, Any], now_s: float) -> list[str]:
    """The first reason for which a container of the Pod has not started, other than being on its way for a while."""
    status = pod.get("status") or {}
    waits = [fact["reason"] for fact in containers.of_status(status) if fact["state"] == "waits"]
    stuck = [reason for reason in waits if reason not in _ON_THE_WAY]
    placed_s = _placed_s(status)
    if stuck or not waits or _has_begun(status) or now_s - placed_s <= STARTS_WITHIN_S:
        return stuck[:1]
    return [f"{waits[0] or 'waiting'} for {words.ago(now_s - placed_s)}"]


def _has_begun(status: Mapping[str, Any]) -> bool:
    """Return whether an init container runs or has run: what comes after it waits for that."""
    states = [each.get("state") or {} for each in status.get("initContainerStatuses") or ()]
    return any("running" in state or "terminated" in state for state in states)


def _placed_s(status: Mapping[str, Any]) -> float:
    """Return when the Pod was given its node, in Unix seconds; +inf where it does not say."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            with contextlib.suppress(ValueError, TypeError):
                return api_objects.parse_instant(condition.get("lastTransitionTime"))
    return math.inf


def _not_started(pods: list[str]) -> list[findings.Finding]:
    if not pods:
        return []
    do = (
        "each may start at any moment, so its room is kept: fix the image, key or volume that it names, or delete it; "
        "`kubectl describe pod` has the node's Events"
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
