"""Checks the Kubernetes API and its nodes."""

import asyncio
import dataclasses
import re
from collections.abc import Mapping, Set
from typing import Any

from carico_cli.doctor import findings, installation, places, pods, rights
from carico_core.domain import amounts, cluster, errors, names
from carico_core.wire.kubernetes import api_objects
from carico_core.wire.kubernetes import object_fields as fields

# Node-bound tokens, which identify an agent's node to the auth callout, are on by default from this version.
NODE_TOKENS_FROM = (1, 30)
# Sidecars, and whatever else the scheduler reads, are on by default from this version; deploy/README.md says the same.
OLDEST = (1, 29)
# https://docs.kernel.org/accounting/psi.html: in the kernel since 4.20; a distribution may have switched it off.
PSI_FROM = (4, 20)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The findings about the API, and its nodes and the cluster's place for the checks of the bus."""

    findings: list[findings.Finding]
    nodes: list[cluster.Node]
    place: places.Place


async def check(
    api: rights.Api, place: places.Place, *, now_s: float,
    scheduler_names: Set[str] = frozenset({names.SCHEDULER_NAME}),
) -> Seen:  # fmt: skip
    """Check the API, and the Pods with one of these schedulerNames.

    Raises `ApiUnavailable`; `ApiError` where it does not report its version.
    """
    version = await api.request("GET", "/version")
    objects = await _node_objects(api)
    listed = [] if isinstance(objects, errors.Forbidden) else objects
    providers = [str(item.get("spec", {}).get("providerID") or "") for item in listed]
    where = place.knowing(str(version.get("gitVersion")), providers)
    found = [_version(version)]
    if where.kind is places.Kind.KUBERNETES:
        # Elsewhere nothing is installed into the cluster.
        found += await rights.check(api, place.namespace)
        found += await installation.check(api, where)
    if isinstance(objects, errors.Forbidden):
        do = "use a kubeconfig whose user may list nodes: otherwise neither PSI nor agents can be checked"
        of_pods = await pods.check(api, now_s, scheduler_names, where)
        return Seen(findings=[*found, findings.fail("nodes", str(objects), do), *of_pods], nodes=[], place=where)
    pressure = dict(await asyncio.gather(*(_pressure(api, item) for item in objects)))
    found += _nodes(objects, pressure, where)
    nodes = [node for item in objects if (node := _parsed(item)) is not None]
    found += await pods.check(api, now_s, scheduler_names, where, nodes)
    return Seen(findings=found, nodes=nodes, place=where)


async def _node_objects(api: rights.Api) -> list[dict[str, Any]] | errors.Forbidden:
    """Return the nodes; the error where the user may not list them."""
    try:
        found: list[dict[str, Any]] = (await api.request("GET", "/api/v1/nodes"))["items"]
    except errors.Forbidden as error:
        return error
    return found


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


def _nodes(
    objects: list[dict[str, Any]], pressure: Mapping[str, bool | None], place: places.Place
) -> list[findings.Finding]:  # fmt: skip
    if not objects:
        return [findings.fail("nodes", "the cluster has none", "add nodes to the cluster first")]
    unready, foreign, old, seen = [], [], [], []
    for item in objects:
        name, info = str(item["metadata"]["name"]), item.get("status", {}).get("nodeInfo", {})
        if not fields.is_ready(item.get("status", {})):
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
                f"they get no Pods until they are ready: {place.of_node(unready[0])} says why",
            )
        )
    if foreign:
        do = "an agent needs Linux: keep CARICO's Pods off these nodes with a node selector"
        found.append(findings.warn("nodes", f"not Linux: {findings.names(foreign)}", do))
    if old:
        do = f"pressure (PSI) needs kernel {_dotted(PSI_FROM)} or later; on these nodes only utilisation is used"
        found.append(findings.warn("PSI", f"no PSI in the kernel of {findings.names(old)}", do))
    elif seen:
        found.append(
            findings.ok("PSI", f"reported by the kubelets of {len(seen)} of {amounts.plural(len(objects), 'node')}")
        )
    return found


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
