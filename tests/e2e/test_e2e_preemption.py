"""Preemption on a cluster of `carico up`, with really running Pods: the victim ends gracefully, and the other runs."""

import pathlib
from typing import Any

from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from tests.e2e import carico_command
from tests.tools import waiting

PODS = "/api/v1/namespaces/default/pods"
NAME = "e2e-preempt"


def pod(name: str, priority: int) -> dict[str, Any]:
    """A Pod that requests half of a node, and needs a second to end."""
    script = "trap 'sleep 1; exit 0' TERM; while true; do sleep 0.1; done"
    container = {
        "name": "main", "image": "any", "command": ["sh", "-c", script], "resources": {"requests": {"cpu": "2"}}
    }  # fmt: skip
    spec = {
        "schedulerName": "carico", "priority": priority, "terminationGracePeriodSeconds": 20, "containers": [container]
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def test_a_running_pod_gives_way_to_one_of_higher_priority(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    async with carico_command.cluster(shell, NAME, "--nodes", "1") as paths:
        settings = api_client.KubeSettings(kubeconfig=str(paths.kubeconfig))
        api = await api_client.connect(settings, clock=clocks.SystemClock(), user_agent="test")

        async def pods() -> dict[str, Any]:
            found = await api.request("GET", PODS)
            return {each["metadata"]["name"]: each for each in found["items"]}

        def runs(found: dict[str, Any], *names: str) -> bool:
            return all(found.get(name, {}).get("status", {}).get("phase") == "Running" for name in names)

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
        finally:
            await api.close()
