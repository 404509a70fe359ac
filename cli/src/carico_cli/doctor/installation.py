"""Checks the parts that deploy/k8s or the Helm chart has installed: whether each is ready, and if not, why."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from carico_cli.doctor import findings, places, rights
from carico_cli.live import object_events
from carico_core.domain import errors
from carico_core.runtime.kube import paged_lists
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.pods import containers

_WHAT = "installation"
# Of everything in deploy/k8s.
_OURS = {"labelSelector": "app.kubernetes.io/part-of=carico"}
# The fields of each kind's status: how many Pods there should be, and how many are ready.
_KINDS = {
    "deployments": ("replicas", "readyReplicas"),
    "statefulsets": ("replicas", "readyReplicas"),
    "daemonsets": ("desiredNumberScheduled", "numberReady"),
}
# What kubelets write about a volume or a variable that cannot be had.
_MISSING = re.compile(r'(secret|configmap) "([^"]+)" not found')


async def check(api: rights.Api, place: places.Place) -> list[findings.Finding]:
    """Return what is found about the parts in the place's namespace."""
    namespace = place.namespace
    try:
        parts = [
            (kind, part)
            for kind in _KINDS
            for part in await _listed(api, f"apis/apps/v1/namespaces/{namespace}/{kind}")
        ]
        pods = await _listed(api, f"api/v1/namespaces/{namespace}/pods") if parts else []
    except errors.NotFound:
        return []
    except errors.Forbidden as error:
        return [findings.skip(_WHAT, str(error))]
    if not parts:
        return [findings.skip(_WHAT, f"nothing is installed in the namespace {namespace}; --namespace names another")]
    unready = [text for kind, part in parts for text in _unready(kind, part)]
    if not unready:
        return [findings.ok(_WHAT, f"all {len(parts)} parts in the namespace {namespace} are ready")]
    missing = sorted({*_missing(_waiting(pods)), *_missing(await _mounts(api, namespace))})
    if missing:
        detail = f"{findings.names(unready)}; missing: {findings.names(missing)}"
        do = f"`deploy/k8s/secrets.sh DIRECTORY | {place.kubectl} apply -f -` creates the Secrets (deploy/README.md)"
        return [findings.fail(_WHAT, detail, do)]
    reasons = sorted(set(_waiting(pods)) | set(_unplaced(pods)))
    detail = "; ".join([findings.names(unready), *reasons[:3]])
    look = f"`{place.kubectl} -n {namespace} get pods`, then `describe` or `logs` of one"
    return [findings.warn(_WHAT, detail, f"they may still be starting; if not: {look}")]


async def _listed(api: rights.Api, path: str) -> list[dict[str, Any]]:
    return paged_lists.items_of(await api.request("GET", f"/{path}", params=_OURS), f"/{path}")


def _unready(kind: str, part: Mapping[str, Any]) -> Iterator[str]:
    status = part.get("status") or {}
    wanted, ready = (int(status.get(field) or 0) for field in _KINDS[kind])
    if kind != "daemonsets":
        # The status lags behind an object that was just applied.
        wanted = int((part.get("spec") or {}).get("replicas", 1))
    if ready < wanted:
        yield f"{part['metadata']['name']}: {ready} of {wanted} ready"


def _waiting(pods: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for pod in pods:
        for each in containers.troubles(pod.get("status") or {}):
            if each.state is containers.State.WAITS and each.reason not in ("ContainerCreating", "PodInitializing"):
                yield each.because


def _unplaced(pods: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for pod in pods:
        scheduled = fields.condition(pod.get("status") or {}, "PodScheduled")
        if scheduled.get("status") == "False":
            yield str(scheduled.get("message") or scheduled.get("reason") or "not placed")


async def _mounts(api: rights.Api, namespace: str) -> list[str]:
    """Return what kubelets reported about volumes that they cannot mount."""
    try:
        found = await object_events.newest(api, namespace, "reason=FailedMount")
    except (errors.ApiError, errors.ApiUnavailable):
        return []
    return [str(event.get("message") or "") for event in found.newest if event.get("reason") == "FailedMount"]


def _missing(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (f"{kind} {name}" for kind, name in _MISSING.findall(text))
