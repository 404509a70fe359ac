"""A real kube-scheduler with CARICO as its extender: never more Pods on a node than it advertised."""

import asyncio
import pathlib
from typing import Any

import pytest

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
        site.start_extender()
        await site.until_ready()
        await site.create_pods(10)
        site.start_kube_scheduler(**extender)
        found = await site.until_bound(3)
        refused = next(f"pi-{index}" for index in range(10) if f"pi-{index}" not in found)
        note = await site.until_told(refused, "capacity: ")
        assert "0/" in note
        await asyncio.sleep(2.0)
        found = await site.bound()
        assert sorted(found.values()) == [f"{site.namespace}-1"] * 2 + [f"{site.namespace}-2"]
