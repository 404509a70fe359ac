"""Fairness on Pods that really run: a large Pod gets its turn next to an endless stream of small ones.

tests/unit/twin/test_twin_turns.py shows the same in virtual time, and that it starves without turns.
"""

import asyncio
import contextlib
import itertools
import pathlib
import time
from typing import Any

import pytest

from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_scheduler.decide import turns
from tests.e2e import carico_command
from tests.tools import waiting

PODS = "/api/v1/namespaces/default/pods"
NAME = "e2e-fair"
SMALL_S = 6
# More than run at once: each that ends finds another one that waits.
SMALL_WAITING = 4
LOOK_EVERY_S = 1.0
# The bound is `AFTER_S` and the longest time for which a small one runs; a busy machine takes several times as long.
WITHIN_S = 4.0 * (turns.AFTER_S + SMALL_S)
# Of the small ones that came later, most of those that fit into two minutes.
PASSED_LEAST = 20


def pod(name: str, cores: int, seconds: int) -> dict[str, Any]:
    """A Pod that requests so many of the node's four cores, and sleeps."""
    container = {
        "name": "main", "image": "any", "command": ["sleep", str(seconds)],
        "resources": {"requests": {"cpu": str(cores)}},
    }  # fmt: skip
    spec = {"schedulerName": "carico", "restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.upstream
@pytest.mark.timeout(WITHIN_S + 2 * carico_command.WITHIN_S)
async def test_a_large_pod_does_not_starve_next_to_small_ones_that_come_later(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    async with carico_command.cluster(shell, NAME, "--nodes", "1") as paths:
        settings = api_client.KubeSettings(kubeconfig=str(paths.kubeconfig))
        api = await api_client.connect(settings, clock=clocks.SystemClock(), user_agent="test")

        async def pods() -> dict[str, Any]:
            return {each["metadata"]["name"]: each for each in (await api.request("GET", PODS))["items"]}

        stream = asyncio.ensure_future(_stream(api))
        try:
            await waiting.answered(pods, lambda found: _running(found) == 4, within_s=carico_command.WITHIN_S)
            await api.request("POST", PODS, body=pod("large", 3, 1))
            began_s = time.monotonic()
            seen = await waiting.answered(pods, lambda found: _node_of(found["large"]), within_s=WITHIN_S)
            print(f"the large Pod waited {time.monotonic() - began_s:.1f} s")
            passed = [
                name for name, each in seen.items()
                if name != "large" and _node_of(each)
                and each["metadata"]["creationTimestamp"] > seen["large"]["metadata"]["creationTimestamp"]
            ]  # fmt: skip
            assert len(passed) >= PASSED_LEAST, "small ones that came later were placed before it"
            await waiting.answered(
                pods, lambda found: found["large"]["status"]["phase"] == "Succeeded", within_s=carico_command.WITHIN_S
            )
            # Its node is no longer held.
            before = len(await pods())
            await waiting.answered(pods, lambda found: len(found) > before + 4, within_s=carico_command.WITHIN_S)
        finally:
            stream.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await stream
            await api.close()


async def _stream(api: api_client.KubeClient) -> None:
    """Keep `SMALL_WAITING` small Pods waiting, until cancelled."""
    for number in itertools.count():
        found = (await api.request("GET", PODS))["items"]
        waits = sum(not _node_of(each) and each["metadata"]["name"] != "large" for each in found)
        for extra in range(SMALL_WAITING - waits):
            await api.request("POST", PODS, body=pod(f"small-{number}-{extra}", 1, SMALL_S))
        await asyncio.sleep(LOOK_EVERY_S)


def _node_of(found: dict[str, Any]) -> str | None:
    node: str | None = found["spec"].get("nodeName")
    return node


def _running(found: dict[str, Any]) -> int:
    return sum(each["status"].get("phase") == "Running" for each in found.values())
