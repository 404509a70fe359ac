"""The player does what a workload's operations name, and measures only the Pods that it should."""

import asyncio
import contextlib
import pathlib
import types
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from bench.cluster import _player, _workloads
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.tools.memory import memory_kube, memory_objects
from tests.unit.scheduler import objects

GATED = {"kind": "Pod", "metadata": {"generateName": "gated-"}, "spec": {"schedulingGates": [{"name": "g"}]}}
PLAIN = {"kind": "Pod", "metadata": {"generateName": "plain-", "labels": {"app": "a"}}, "spec": {}}
VOLUME = {"kind": "PersistentVolume", "spec": {"csi": {"driver": "ebs"}}}
CLAIM = {"kind": "PersistentVolumeClaim", "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "true"}}}
NODE = {"kind": "Node", "metadata": {"name": "named"}, "status": {"capacity": {"pods": "90k", "cpu": "4"}}}


class Cluster:
    """An API with a scheduler that binds every Pod without gates to the first node, and what was advertised."""

    def __init__(self) -> None:
        self.api = memory_kube.MemoryKube()
        self.bus = self
        self.advertised: dict[str, bytes] = {}
        self.has_ended = False

    async def publish(self, subject: str, payload: bytes) -> None:
        self.advertised[subject] = payload

    def check(self) -> None:
        assert not self.has_ended, "the scheduler has ended"

    def all(self, plural: str) -> list[dict[str, Any]]:
        return self.api.objects.all(plural, memory_objects.parse_selector("", {}))

    async def schedule(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            for pod in self.all("pods"):
                metadata = pod["metadata"]
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                if pod["spec"].get("schedulingGates"):
                    condition = {"type": "PodScheduled", "status": "False"}
                    self.api.objects.update(
                        "pods",
                        (metadata["namespace"], metadata["name"]),
                        pod | {"status": {"conditions": [condition]}},
                        "",
                    )
                elif not pod["spec"].get("nodeName") and self.all("nodes"):
                    target = {"kind": "Node", "name": self.all("nodes")[0]["metadata"]["name"]}
                    await self.api.request(
                        "POST", f"{path}/binding", body={"metadata": {"name": metadata["name"]}, "target": target}
                    )


@contextlib.asynccontextmanager
async def player(cluster: Cluster) -> AsyncIterator[_player.Player]:
    scheduling = asyncio.create_task(cluster.schedule())
    async with _player.on(cluster, cluster.check) as made:  # type: ignore[arg-type]
        yield made
    scheduling.cancel()
    await asyncio.gather(scheduling, return_exceptions=True)


@pytest.fixture
def templates(tmp_path: pathlib.Path) -> types.SimpleNamespace:
    bodies = {"gated": GATED, "plain": PLAIN, "node": NODE, "volume": VOLUME, "claim": CLAIM | {"spec": {}}}
    for name, body in bodies.items():
        (tmp_path / name).write_text(yaml.safe_dump(body))
    return types.SimpleNamespace(**{name: tmp_path / name for name in bodies})


def workload(*ops: _workloads.Op) -> _workloads.Workload:
    return _workloads.Workload(case="case", name="name", ops=ops)


def test_objects_are_created_and_the_measured_pods_counted(templates: types.SimpleNamespace) -> None:
    async def main() -> None:
        cluster = Cluster()
        async with player(cluster) as made:
            zones = {"labelKey": "zone", "labelValues": ["a", "b"]}
            rate = await made.play(
                workload(
                    {"opcode": "createNodes", "count": 3, "labelNodePrepareStrategy": zones},
                    {"opcode": "createNodes", "count": 1, "nodeTemplatePath": templates.node},
                    {"opcode": "createNamespaces", "count": 2, "prefix": "set"},
                    {
                        "opcode": "createPods", "count": 4, "podTemplatePath": templates.gated,
                        "skipWaitToCompletion": True,
                    },
                    {"opcode": "barrier", "stageRequirement": "Attempted"},
                    {
                        "opcode": "createPodSets", "count": 2, "namespacePrefix": "set",
                        "createPodsOp": {"opcode": "createPods", "count": 3, "podTemplatePath": templates.plain},
                    },
                    {"opcode": "createPods", "count": 5, "collectMetrics": True},
                )
            )  # fmt: skip
            assert rate > 0
            assert len(made._measured) == 5
            nodes = {each["metadata"]["name"]: each["metadata"]["labels"] for each in cluster.all("nodes")}
            assert sorted(each["zone"] for each in nodes.values() if "zone" in each) == ["a", "a", "b"]
            assert all(each["kubernetes.io/hostname"] == name for name, each in nodes.items())
            spaces = [each["metadata"]["namespace"] for each in cluster.all("pods")]
            assert {name: spaces.count(name) for name in spaces} == {
                "namespace-3": 4, "set-0": 3, "set-1": 3, "namespace-6": 5
            }  # fmt: skip
            await asyncio.sleep(2.0)
            subject = subjects.capacity("named")
            found = wire.decode_advertisement(cluster.advertised[subject], subject=subject)
            assert found.capacity <= _player._LIMIT_MOST + 2, "it takes 90,000 Pods, which no node can advertise"

    objects.run_fast(main())


def test_each_pod_gets_a_volume_that_is_bound_to_its_claim(templates: types.SimpleNamespace) -> None:
    async def main() -> None:
        cluster = Cluster()
        attaches = {
            "nodeAllocatable": {"attachable-volumes-csi-ebs": "39"}, "csiNodeAllocatable": {"ebs": {"count": 39}},
            "migratedPlugins": ["kubernetes.io/aws-ebs"],
        }  # fmt: skip
        pods = {
            "opcode": "createPods", "count": 2, "podTemplatePath": templates.plain,
            "persistentVolumeTemplatePath": templates.volume, "persistentVolumeClaimTemplatePath": templates.claim,
        }  # fmt: skip
        async with player(cluster) as made:
            nodes = {"opcode": "createNodes", "count": 2, "nodeAllocatableStrategy": attaches}
            await made.play(workload(nodes, pods, pods | {"collectMetrics": True}))
        (node, _), (csi_node, _) = cluster.all("nodes"), cluster.all("csinodes")
        assert node["status"]["allocatable"] == node["status"]["capacity"] | attaches["nodeAllocatable"]
        driver = {"name": "ebs", "nodeID": csi_node["metadata"]["name"], "allocatable": {"count": 39}}
        assert csi_node["spec"]["drivers"] == [driver]
        volumes = {each["metadata"]["name"]: each for each in cluster.all("persistentvolumes")}
        claims = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in
                  cluster.all("persistentvolumeclaims")}  # fmt: skip
        assert len(volumes) == len(claims) == 4
        for pod in cluster.all("pods"):
            (volume,) = pod["spec"]["volumes"]
            key = (pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
            bound = volumes[claims.pop(key)["spec"]["volumeName"]]
            assert (bound["spec"]["claimRef"]["namespace"], bound["spec"]["claimRef"]["name"]) == key
            assert bound["spec"]["csi"]["volumeHandle"] == bound["metadata"]["name"]
            assert bound["status"]["phase"] == "Bound"
        assert not claims

    objects.run_fast(main())


def test_pods_are_deleted_churned_and_collected_by_their_labels(templates: types.SimpleNamespace) -> None:
    async def main() -> None:
        cluster = Cluster()
        async with player(cluster) as made:
            await made.play(
                workload(
                    {"opcode": "createNodes", "count": 1},
                    {"opcode": "createPods", "count": 3, "podTemplatePath": templates.plain, "namespace": "gone"},
                    {"opcode": "deletePods", "namespace": "gone", "deletePodsPerSecond": 100},
                    {
                        "opcode": "churn", "mode": "create", "number": 2, "templatePaths": [templates.gated],
                        "namespace": "c",
                    },
                    {"opcode": "sleep", "duration": "3s"},
                    {
                        "opcode": "startCollectingMetrics", "name": "n", "namespaces": ["here"],
                        "labelSelector": {"app": "a"},
                    },
                    {"opcode": "createPods", "count": 2, "podTemplatePath": templates.plain, "namespace": "here"},
                    {"opcode": "createPods", "count": 2, "namespace": "here"},
                    {"opcode": "createPods", "count": 2, "podTemplatePath": templates.plain, "namespace": "there"},
                    {"opcode": "stopCollectingMetrics"},
                )
            )  # fmt: skip
            spaces = [each["metadata"]["namespace"] for each in cluster.all("pods")]
            assert {name: spaces.count(name) for name in spaces} == {"c": 2, "here": 4, "there": 2}
            assert len(made._measured) == 2

    objects.run_fast(main())


def test_a_scheduler_that_ends_ends_the_run(templates: types.SimpleNamespace) -> None:
    async def main() -> None:
        cluster = Cluster()
        async with player(cluster) as made:
            cluster.has_ended = True
            with pytest.raises(AssertionError, match="the scheduler has ended"):
                await made.play(workload({"opcode": "createPods", "count": 1}))

    objects.run_fast(main())
