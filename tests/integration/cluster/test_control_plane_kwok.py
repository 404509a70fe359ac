"""The real control plane by itself: kwok's nodes, its own controllers, and what a killed owner leaves of it."""

import asyncio
import functools
import json
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions, api_client, paged_lists
from carico_local.cluster import processes
from carico_local.cluster.services import ready_nodes
from carico_local.jobs import job as jobs
from carico_local.jobs import job_labels
from carico_local.played_nodes import nodes
from tests.tools import kubernetes

NODES = 20
PATIENCE_S = 60.0
# Pods that are deleted and created again at once.
SUCCESSIONS = 20
# Starts a control plane, says its processes, and waits to be killed.
OWNER = """
import json, pathlib, sys, time
from carico_core.runtime.process import clock as clocks, settings
from carico_local.binaries import tools
from carico_local.control_plane import standalone
environ = settings.environment()
found = tools.obtain(standalone.DEFAULT, environ=environ, clock=clocks.SystemClock(), report=lambda _: None)
plane = standalone.Standalone(pathlib.Path(sys.argv[1]), environ=environ, clock=clocks.SystemClock(), found=found)
plane.start()
print(json.dumps([plane.pid(part) for part in standalone.DEFAULT]), flush=True)
time.sleep(600)
"""


async def listed(api: api_client.KubeClient, path: str, **params: str) -> list[dict[str, Any]]:
    """The objects of a collection."""
    return (await paged_lists.list_all(api, path, params=params)).objects


async def until(condition: Callable[[], Any]) -> None:
    """Returns once the condition, which is asked of the API, holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.1)


async def test_kwok_nodes_become_ready_run_a_job_and_go(real_api: api_client.KubeClient) -> None:
    ours = {"labelSelector": f"{nodes.FLEET_LABEL}=kwok"}
    assert await nodes.create(real_api, NODES, cores=4, pods=110) == NODES

    async def all_ready() -> bool:
        found = await listed(real_api, nodes.NODES_PATH, **ours)
        # The taint that every new Node is given goes when its kubelet has spoken.
        return sum(ready_nodes.is_ready(node) and not node["spec"].get("taints") for node in found) == NODES

    await until(all_ready)
    job = jobs.Job(name="kwok-pi", workload=jobs.Workload.PI, pods=3, seconds=0.5, scheduler_name="nobody")
    await jobs.submit(real_api, job, batch=True)
    pods = f"/api/v1/namespaces/{job.namespace}/pods"
    selector = {"labelSelector": f"{job_labels.JOB_LABEL}={job.name}"}

    async def all_created() -> bool:
        return len(await listed(real_api, pods, **selector)) == job.pods

    await until(all_created)
    for number, pod in enumerate(await listed(real_api, pods, **selector)):
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number + 1}"}
        await real_api.request("POST", f"{pods}/{name}/binding", body={"metadata": {"name": name}, "target": target})

    async def complete() -> bool:
        status = (await real_api.request("GET", f"/apis/batch/v1/namespaces/default/jobs/{job.name}"))["status"]
        return bool(status.get("succeeded") == job.pods)

    await until(complete)
    await real_api.request("DELETE", nodes.NODES_PATH, params=ours)
    assert await listed(real_api, nodes.NODES_PATH, **ours) == []


async def test_a_pod_with_the_name_of_a_deleted_one_is_not_deleted_with_it(real_api: api_client.KubeClient) -> None:
    # Not a Node of the test before: kwok might still be about to forget one of that name.
    node = list(nodes.manifests(NODES + 1, cores=4, pods=110))[-1]
    name = node["metadata"]["name"]
    await real_api.request("POST", nodes.NODES_PATH, body=node)

    async def ready() -> bool:
        return ready_nodes.is_ready(await real_api.request("GET", f"{nodes.NODES_PATH}/{name}"))

    await until(ready)
    pods = "/api/v1/namespaces/default/pods"

    async def running(uid: str) -> bool:
        pod = await real_api.request("GET", f"{pods}/{pod_name}")
        assert pod["metadata"]["uid"] == uid
        return bool(pod["status"]["phase"] == "Running")

    async def replace() -> str:
        """Create the Pod as soon as its predecessor is gone."""
        while True:
            body = {
                "metadata": {"name": pod_name},
                "spec": {"nodeName": name, "containers": [{"name": "c", "image": "x"}]},
            }
            try:
                return str((await real_api.request("POST", pods, body=body))["metadata"]["uid"])
            except errors.Conflict:
                await asyncio.sleep(0)

    for pod_name in (f"again-{number}" for number in range(SUCCESSIONS)):
        first = await replace()
        await until(functools.partial(running, first))
        await real_api.request("DELETE", f"{pods}/{pod_name}")
        second = await replace()
        assert second != first
        await until(functools.partial(running, second))
    await real_api.request("DELETE", f"{nodes.NODES_PATH}/{name}")


async def test_a_node_does_as_its_kubelet_would_for_extended_resources_and_pre_stop_hooks(
    real_api: api_client.KubeClient,
) -> None:
    node = list(nodes.manifests(NODES + 2, cores=4, pods=110))[-1]
    name = node["metadata"]["name"]
    path, pods = f"{nodes.NODES_PATH}/{name}", "/api/v1/namespaces/default/pods"
    await real_api.request("POST", nodes.NODES_PATH, body=node)
    await until(lambda: _is_ready(real_api, path))
    grown = {"status": {"capacity": {"example.com/foo": "5"}}}
    await real_api.request("PATCH", f"{path}/status", body=grown, content_type=api_actions.MERGE_PATCH)

    async def is_allocatable() -> bool:
        found: dict[str, Any] = (await real_api.request("GET", path))["status"]["allocatable"]
        assert found["cpu"] == "4"
        return found.get("example.com/foo") == "5"

    await until(is_allocatable)
    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}
    for pod, more, grace_s in (("plain", {}, 30), ("long", hook, 300), ("short", hook, 1)):
        container = {"name": "c", "image": "x", **more}
        spec = {"nodeName": name, "containers": [container], "terminationGracePeriodSeconds": grace_s}
        await real_api.request("POST", pods, body={"metadata": {"name": f"kwok-{pod}"}, "spec": spec})

    async def left() -> set[str]:
        found = await listed(real_api, pods, fieldSelector=f"spec.nodeName={name}")
        return {pod["metadata"]["name"] for pod in found if pod["status"]["phase"] == "Running"}

    async def all_run() -> bool:
        return len(await left()) == 3

    async def others_are_gone() -> bool:
        return await left() == {"kwok-long"}

    await until(all_run)
    for pod in ("long", "short", "plain"):
        await real_api.request("DELETE", f"{pods}/kwok-{pod}")
    await until(others_are_gone)
    await real_api.request("DELETE", f"{pods}/kwok-long", body={"gracePeriodSeconds": 0})
    await real_api.request("DELETE", path)


async def _is_ready(api: api_client.KubeClient, path: str) -> bool:
    return ready_nodes.is_ready(await api.request("GET", path))


@pytest.mark.real_programs
def test_an_owner_that_is_killed_takes_its_control_plane_along(tmp_path: pathlib.Path) -> None:
    kubernetes.control_plane_programs()
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = json.loads(owner.stdout.readline())
        children = [processes.identify(pid) for pid in pids]
        assert len(children) == 3
        assert None not in children
        owner.send_signal(signal.SIGKILL)
    deadline_s = time.monotonic() + PATIENCE_S
    while any(child is not None and processes.is_alive(child) for child in children):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
