"""On a real control plane: a Pod's claims are bound for its node first, by the real controllers, and then the Pod."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions, api_client
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks as paces
from carico_core.wire.kubernetes import instants
from carico_local.control_plane import standalone
from carico_scheduler.engine import engine, parts
from carico_scheduler.report import decisions, events, instruments
from carico_scheduler.rules import policy
from tests.tools import waiting

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
PODS = "/api/v1/namespaces/default/pods"
WITHIN_S = 60.0
NODES = ("vol-a", "vol-b")


class Site:
    """An engine at work on the real API; requests decide, since no node advertises."""

    def __init__(self, api: api_client.KubeClient) -> None:
        self.api = api
        self.made: list[str] = []
        clock = clocks.SystemClock()
        log = decisions.Log(boot="0" * 16, threshold=1.0, clock=clock, on_record=lambda _: None, on_drop=lambda: None)
        recorder = api_actions.EventRecorder(api, clock=clock, controller="carico-scheduler", instance="test")
        writer = events.Writer(recorder, pace=paces.Pace(100.0, clock=clock), on_drop=lambda why: None)
        self.engine = engine.Engine(
            parts.EngineParts(
                policy=policy.Policy(fallback=policy.Fallback.REQUESTS), kube=api, clock=clock,
                rng=random.Random(0), log=log, events=writer,
                metrics=instruments.Instruments(metrics.Metrics("scheduler")), binds_in_flight=8,
                bind_timeout_s=5.0, event_after_s=1.0,
            )
        )  # fmt: skip

    async def make(self, path: str, name: str, **fields: Any) -> None:
        self.made.append(f"{path}/{name}")
        metadata = {"name": name} | fields.pop("metadata", {})
        await self.api.request("POST", path, body={"metadata": metadata} | fields)

    async def until(self, path: str, what: Any) -> Any:
        """The object, once `what` is true of it."""
        return await waiting.answered(lambda: self.api.request("GET", path), what, within_s=WITHIN_S)


@contextlib.asynccontextmanager
async def at_work(plane: standalone.Standalone) -> AsyncIterator[Site]:
    """A site with nodes vol-a and vol-b; both go with it."""
    api = await api_client.connect(
        api_client.KubeSettings(kubeconfig=str(plane.kubeconfig)), clock=clocks.SystemClock(), user_agent="test"
    )
    site = Site(api)
    try:
        async with asyncio.TaskGroup() as group:
            works = [*site.engine.informers.works().values(), site.engine.decide_forever()]
            tasks = [group.create_task(work) for work in works]
            for name in NODES:
                await site.make("/api/v1/nodes", name, **_node(name))
                # Admission taints a node that it has not seen ready.
                untaint: dict[str, Any] = {"spec": {"taints": []}}
                await api.request("PATCH", f"/api/v1/nodes/{name}", body=untaint, content_type=api_actions.MERGE_PATCH)
            tasks.append(group.create_task(_live(api)))
            yield site
            await site.engine.binder.drain(1.0)
            for task in tasks:
                task.cancel()
    finally:
        # Others use the control plane as well. Pods first: a claim in use is not let go.
        for path in reversed(site.made):
            with contextlib.suppress(errors.NotFound):
                await api.request("DELETE", path, body={"gracePeriodSeconds": 0})
        await api.close()


def _node(name: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"kubernetes.io/hostname": name, "of": "volumes"}}, "status": _status()}


def _status() -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    heard_of = instants.format_time(clocks.SystemClock().wall_ns())
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heard_of}
    return {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}


async def _live(api: api_client.KubeClient) -> None:
    """Renew kubelets' Leases until cancelled: a node that is silent for 40 s is tainted."""
    while True:
        for name in NODES:
            with contextlib.suppress(errors.ApiUnavailable):
                await api_actions.patch_node_status(api, node=name, status=_status())
        await asyncio.sleep(5.0)


async def _claim_and_pod(site: Site, name: str, storage_class: str) -> None:
    spec = {
        "storageClassName": storage_class, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    await site.make(CLAIMS, name, spec=spec)
    pod = {
        "schedulerName": "carico", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"of": "volumes"}, "containers": [{"name": "c", "image": "pi"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
    }  # fmt: skip
    await site.until("/api/v1/namespaces/default/serviceaccounts", lambda found: found["items"])
    await site.make(PODS, name, spec=pod)


def _volume(node: str, storage_class: str) -> dict[str, Any]:
    values = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    return {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain", "local": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": values}]}},
    }  # fmt: skip


def _selected_node(claim: Any) -> str:
    annotations: dict[str, str] = claim["metadata"].get("annotations", {})
    return annotations.get("volume.kubernetes.io/selected-node", "")


def _is_bound(pod: Any) -> bool:
    return bool(pod["spec"].get("nodeName"))


@pytest.mark.timeout(180)
async def test_a_volume_that_is_there_is_kept_for_the_claim(real_control_plane: standalone.Standalone) -> None:
    async with at_work(real_control_plane) as site:
        later: dict[str, Any] = {"volumeBindingMode": "WaitForFirstConsumer"}
        await site.make(CLASSES, "vol-local", provisioner="kubernetes.io/no-provisioner", **later)
        await site.make(VOLUMES, "vol-disk", spec=_volume("vol-b", "vol-local"))
        await _claim_and_pod(site, "vol-static", "vol-local")
        pod = await site.until(f"{PODS}/vol-static", _is_bound)
        assert pod["spec"]["nodeName"] == "vol-b"
        # The controller writes the status after the claim itself.
        claim = await site.until(f"{CLAIMS}/vol-static", lambda found: found["status"]["phase"] == "Bound")
        assert claim["spec"]["volumeName"] == "vol-disk"


@pytest.mark.timeout(180)
async def test_a_volume_that_is_to_be_made_is_asked_for_and_waited_for(
    real_control_plane: standalone.Standalone,
) -> None:
    async with at_work(real_control_plane) as site:
        later: dict[str, Any] = {"volumeBindingMode": "WaitForFirstConsumer"}
        await site.make(CLASSES, "vol-made", provisioner="csi.example.com", **later)
        await _claim_and_pod(site, "vol-dynamic", "vol-made")
        asked = await site.until(f"{CLAIMS}/vol-dynamic", _selected_node)
        node = _selected_node(asked)
        assert not _is_bound(await site.api.request("GET", f"{PODS}/vol-dynamic"))
        # It waits without taking the place of a bind.
        await waiting.until(lambda: site.engine.binder.room == 8)
        reference = {"namespace": "default", "name": "vol-dynamic", "uid": asked["metadata"]["uid"]}
        await site.make(VOLUMES, "vol-new", spec=_volume(node, "vol-made") | {"claimRef": reference})
        pod = await site.until(f"{PODS}/vol-dynamic", _is_bound)
        assert pod["spec"]["nodeName"] == node
