"""A real kube-scheduler with CARICO as its extender: never more Pods on a node than it advertised."""

import asyncio
import pathlib
from typing import Any

import pytest

from carico_core.runtime.kube import api_actions
from carico_local.control_plane import standalone
from tests.integration import extender_site


@pytest.mark.parametrize(
    "extender",
    [{}, {"bindVerb": None}, {"nodeCacheCapable": False}],
    ids=["names and our bind", "its own bind", "whole nodes"],
)
async def test_room_for_three_takes_three_of_ten(
    real_control_plane: standalone.Standalone, tmp_path: pathlib.Path, extender: dict[str, Any]
) -> None:
    async with extender_site.running(real_control_plane, tmp_path, f"extender-{len(extender)}-{id(extender)}") as site:
        await site.create_node(f"{site.namespace}-1", 2.0)
        await site.create_node(f"{site.namespace}-2", 1.0)
        site.start_extender("--no-own-pods", "--no-leader-election")
        await site.until_ready()
        await site.create_pods(10)
        site.start_kube_scheduler(**extender)
        found = await site.until_bound(3)
        # Each of the others was tried, and its condition reports why it waits.
        for refused in {f"pi-{index}" for index in range(10)} - found.keys():
            assert "0/" in await site.until_told(refused, "CARICO: at capacity")
        found = await site.bound()
        assert sorted(found.values()) == [f"{site.namespace}-1"] * 2 + [f"{site.namespace}-2"]


@pytest.mark.parametrize("processes", [1, 2], ids=["one process", "two that share the work"])
async def test_pods_of_both_kinds_share_one_node_by_one_ledger(
    real_control_plane: standalone.Standalone, tmp_path: pathlib.Path, processes: int
) -> None:
    async with extender_site.running(real_control_plane, tmp_path, f"extender-both-{processes}") as site:
        await site.create_node(f"{site.namespace}-1", 5.0)
        lease = ("--leader-namespace", site.namespace)
        if processes == 1:
            site.start_extender(*lease)
        else:
            site.start_scheduler(*lease, "--sharing", "shared")
            site.start_extender(*lease, "--sharing", "shared", "--no-own-pods")
        await site.until_ready()
        site.start_kube_scheduler()
        async with asyncio.TaskGroup() as group:
            group.create_task(site.create_pods(6, prefix="theirs"))
            group.create_task(site.create_pods(6, prefix="ours", schedulerName="carico"))
        await site.until_bound(5)
        await asyncio.sleep(2.0)
        assert len(await site.bound()) == 5
        # All that the node has taken it now accounts for, and has room for two more.
        taken = frozenset(pod["metadata"]["uid"] for pod in await site.pods() if pod["spec"].get("nodeName"))
        site.covered[f"{site.namespace}-1"], site.capacities[f"{site.namespace}-1"] = taken, 2.0
        # An advertisement alone does not make kube-scheduler look again; a change of a Node does.
        patch = {"metadata": {"labels": {"changed": "yes"}}}
        await api_actions.patch_node(site.client, node=f"{site.namespace}-1", patch=patch)
        await site.until_bound(7)
        await asyncio.sleep(2.0)
        assert len(await site.bound()) == 7
