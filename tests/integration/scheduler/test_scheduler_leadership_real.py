"""Schedulers at a real kube-apiserver: their leader dies, or etcd is restored from a backup."""

import asyncio
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

from carico_core.runtime.kube import api_actions
from carico_local.cluster import free_ports
from carico_local.control_plane import commands, standalone
from carico_scheduler.intake import handover
from tests.integration import extender_site
from tests.tools import service_process, waiting
from tests.tools.api import audit_log

PODS = 60
# Long enough for a machine that stands still for some seconds.
LEASE_S = 6
FLAGS = [
    "--leader-lease-s", str(LEASE_S), "--leader-renew-s", "5", "--leader-retry-s", "0.5", "--bind-timeout-s", "1",
]  # fmt: skip
# A new leader binds within 5 s of the end of the Lease; machines that run tests are given four times that.
TAKEOVER_S = 4 * 5.0


def start(site: extender_site.Site, name: str) -> "subprocess.Popen[bytes]":
    """A scheduler for the site's Lease."""
    options = [
        "--bus-url", site.nats.url, "--kubeconfig", str(site.plane.kubeconfig), "--http-port",
        str(free_ports.choose_one()), "--leader-identity", name, "--leader-namespace", site.namespace, *FLAGS,
    ]  # fmt: skip
    return service_process.start(site.root / f"{name}.log", "carico_scheduler", *options)


async def holder(site: extender_site.Site, but: str = "") -> str:
    """Who leads, once somebody does that is not `but`."""
    async with asyncio.timeout(waiting.WAIT_S):
        while True:
            found = await api_actions.get_lease(site.client, namespace=site.namespace, name="carico-scheduler")
            if found is not None and found.holder not in ("", but):
                return found.holder
            await asyncio.sleep(0.05)


async def test_a_leader_killed_midway(real_control_plane: standalone.Standalone, tmp_path: pathlib.Path) -> None:
    async with (
        extender_site.running(real_control_plane, tmp_path, "leadership") as site,
        contextlib.AsyncExitStack() as stack,
    ):
        for index in range(3):
            await site.create_node(f"leadership-{index}", 12.0)
        members = {name: start(site, name) for name in "ab"}
        stack.callback(service_process.end, *members.values())
        old = await holder(site)
        await site.create_pods(PODS, schedulerName="carico")
        await site.until_bound(12)
        members[old].kill()
        died_s = time.monotonic()
        new = await holder(site, but=old)
        # No node accounts for any Pod: all that the old leader bound is still reserved, and 36 fit in all.
        bound = await site.until_bound(36)
        assert time.monotonic() - died_s <= LEASE_S + 2 * TAKEOVER_S
        await asyncio.sleep(1.0)
        assert len(await site.bound()) == 36
        for node in site.capacities:
            assert sum(where == node for where in bound.values()) == 12
        audited = audit_log.bindings(real_control_plane.directory / "bindings.log")
        ours = {pod: nodes for pod, nodes in audited.items() if pod.startswith("leadership/")}
        assert len(ours) == 36
        assert all(len(nodes) == 1 for nodes in ours.values())
        assert new != old
        just_bound = await site.client.request("GET", "/api/v1/pods", params=handover.JUST_BOUND)
        # The plane may hold Pods of other tests.
        assert sum(pod["metadata"]["namespace"] == site.namespace for pod in just_bound["items"]) == 36


async def test_a_scheduler_goes_by_what_there_is_after_etcd_was_restored_to_an_older_state(
    real_control_plane: standalone.Standalone, tmp_path: pathlib.Path
) -> None:
    """Its resourceVersions go back, a Pod that was deleted is there again, and later ones are gone."""
    async with (
        extender_site.running(real_control_plane, tmp_path, "restored") as site,
        contextlib.AsyncExitStack() as stack,
    ):
        # No node accounts for any Pod: it has room for eight in all.
        await site.create_node("restored-0", 8.0)
        scheduler = start(site, "a")
        stack.callback(service_process.end, scheduler)
        await site.create_pods(2, "kept", schedulerName="carico")
        await site.until_bound(2)
        backup = copy_store(real_control_plane, tmp_path / "backup")
        await site.client.request("DELETE", f"{site.pods_path}/kept-0", body={"gracePeriodSeconds": 0})
        await site.create_pods(7, "lost", schedulerName="carico")
        await site.until_bound(8)
        await asyncio.to_thread(restore_store, real_control_plane, backup)
        assert set(await waiting.answered(site.bound)) == {"kept-0", "kept-1"}
        await site.create_pods(7, "new", schedulerName="carico")
        bound = await site.until_bound(8)
        await asyncio.sleep(1.0)
        assert {"kept-0", "kept-1"} < set(bound) == set(await site.bound())
        assert scheduler.poll() is None


def copy_store(plane: standalone.Standalone, to: pathlib.Path) -> pathlib.Path:
    """Copy etcd's files as of one moment."""
    os.kill(plane.pid(commands.ETCD), signal.SIGSTOP)
    try:
        return pathlib.Path(shutil.copytree(plane.directory / "etcd", to))
    finally:
        os.kill(plane.pid(commands.ETCD), signal.SIGCONT)


def restore_store(plane: standalone.Standalone, backup: pathlib.Path) -> None:
    """Start the control plane with what was copied."""
    plane.kill()
    shutil.rmtree(plane.directory / "etcd")
    backup.rename(plane.directory / "etcd")
    plane.start()
