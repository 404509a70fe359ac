"""Preemption and gangs on a cluster of `carico up`: a running victim ends gracefully, and a gang runs whole."""

import pathlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import pod_groups
from tests.e2e import carico_command
from tests.tools import waiting

PODS = "/api/v1/namespaces/default/pods"
NAME = "e2e-preempt"


def pod(name: str, priority: int, **metadata: Any) -> dict[str, Any]:
    """A Pod that requests half of a node, and needs a second to end."""
    script = "trap 'sleep 1; exit 0' TERM; while true; do sleep 0.1; done"
    container = {
        "name": "main", "image": "any", "command": ["sh", "-c", script], "resources": {"requests": {"cpu": "2"}}
    }  # fmt: skip
    spec = {
        "schedulerName": "carico", "priority": priority, "terminationGracePeriodSeconds": 20, "containers": [container]
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def gang_pod(name: str) -> dict[str, Any]:
    """One of two Pods that run together or not at all."""
    label = {pod_groups.LABEL: "pair"}
    return pod(name, 0, labels=label, annotations={pod_groups.MIN_MEMBER: "2"})


async def check_gang(api: api_client.KubeClient, pods: Callable[[], Awaitable[dict[str, Any]]]) -> None:
    """While two Pods fill the node a gang of two waits, also for the second half; then both of it run."""
    for name in ("one", "two"):
        await api.request("POST", PODS, body=gang_pod(name))
    await api.request("DELETE", f"{PODS}/middle")
    await waiting.answered(pods, lambda found: "middle" not in found, within_s=carico_command.WITHIN_S)

    async def events() -> list[str]:
        found = (await api.request("GET", "/api/v1/namespaces/default/events"))["items"]
        return [each["message"] for each in found if each["reason"] == "FailedScheduling"]

    why = "gang default/pair: 2 Pods must be placed together; there was room for 1"
    await waiting.answered(
        events, lambda found: any(each.startswith(why) for each in found), within_s=carico_command.WITHIN_S
    )
    now = await pods()
    assert not any(runs(now, name) for name in ("one", "two"))
    await api.request("DELETE", f"{PODS}/high")
    seen = await waiting.answered(pods, lambda found: runs(found, "one", "two"), within_s=carico_command.WITHIN_S)
    assert set(seen) == {"one", "two"}


def runs(found: dict[str, Any], *names: str) -> bool:
    """Return whether all of these Pods run."""
    return all(found.get(name, {}).get("status", {}).get("phase") == "Running" for name in names)


@pytest.mark.parametrize(
    "options", [(), ("--schedulers", "2", "--sharing", "shared")], ids=["one scheduler", "two that share the work"]
)
async def test_a_running_pod_gives_way_to_one_of_higher_priority_and_a_gang_runs_whole(
    options: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    shell = carico_command.Shell(tmp_path)
    async with carico_command.cluster(shell, NAME, "--nodes", "1", *options) as paths:
        settings = api_client.KubeSettings(kubeconfig=str(paths.kubeconfig))
        api = await api_client.connect(settings, clock=clocks.SystemClock(), user_agent="test")

        async def pods() -> dict[str, Any]:
            found = await api.request("GET", PODS)
            return {each["metadata"]["name"]: each for each in found["items"]}

        try:
            for name, priority in (("low", 1), ("middle", 5)):
                await api.request("POST", PODS, body=pod(name, priority))
            await waiting.answered(pods, lambda found: runs(found, "low", "middle"), within_s=carico_command.WITHIN_S)
            await api.request("POST", PODS, body=pod("high", 1000))
            seen = await waiting.answered(
                pods, lambda found: runs(found, "high") and "low" not in found, within_s=carico_command.WITHIN_S
            )
            assert runs(seen, "high", "middle")
            assert set(seen) == {"high", "middle"}
            events = (await api.request("GET", "/api/v1/namespaces/default/events"))["items"]
            preempted = [each for each in events if each["reason"] == "Preempted"]
            assert [each["involvedObject"]["name"] for each in preempted] == ["low"]
            assert preempted[0]["message"].startswith(f"Preempted by pod {seen['high']['metadata']['uid']}")
            await check_gang(api, pods)
        finally:
            await api.close()
