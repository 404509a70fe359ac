"""The Node object of an emulated node, and what keeps it up to date: Lease, status, pressure."""

import asyncio
import dataclasses
import os
import platform
from collections.abc import Mapping
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import instants
from carico_core.wire.kubernetes import lease as kubernetes_lease
from carico_local.cgroups import group as groups
from carico_local.node import settings

# kubelet: nodeLeaseDurationSeconds 40, renewed every quarter of it; nodeStatusUpdateFrequency 10 s.
LEASE_NAMESPACE = "kube-node-lease"
LEASE_S = 40
RENEW_S = 10.0
STATUS_S = 10.0
LOOK_S = 1.0
# The kubelet's default eviction threshold memory.available<100Mi, for a node of full size. Nothing is evicted here:
# above the limit, the kernel kills a process.
PRESSURE_BYTES = 100 * 2**20
SCALE_ANNOTATION = "carico.dev/scale"
# On a Node that its own stopping kubelet has cordoned: the next process of the node lifts the cordon.
DRAINING_ANNOTATION = "carico.dev/draining"
EMULATED_LABEL = "carico.dev/emulated"
VERSION = "v1.31.0-carico"
_log = logs.get("node.registration")


def node_object(chosen: settings.NodeSettings) -> dict[str, Any]:
    """Return the Node object to create, with its own labels and its scale."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": chosen.name, "labels": labels(chosen.name), "annotations": annotations(chosen)},
        "spec": {},
    }


def labels(name: str) -> dict[str, str]:
    """Return the labels that every kubelet sets, and ours."""
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _architecture(),
        EMULATED_LABEL: "true",
    }


def annotations(chosen: settings.NodeSettings) -> dict[str, str]:
    """Return the annotations of the node: the real CPU of one emulated core."""
    return {SCALE_ANNOTATION: repr(chosen.scale)}


def node_status(
    chosen: settings.NodeSettings,
    *,
    log_port: int,
    pressure: bool,
    previous: Mapping[str, Any],
    now_ns: int,
    boot_id: str,
) -> dict[str, Any]:
    """Return the status of the Node, with capacities in emulated units, which schedulers work with."""
    resources = {
        "cpu": f"{chosen.cores:.0f}" if chosen.cores == round(chosen.cores) else f"{round(chosen.cores * 1000)}m",
        "memory": f"{round(chosen.memory_bytes / chosen.scale / 1024)}Ki",
        "pods": str(chosen.pods),
    }
    return {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [
            {"type": "InternalIP", "address": chosen.address},
            {"type": "Hostname", "address": chosen.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": log_port}},
        "nodeInfo": {
            "machineID": chosen.name,
            "systemUUID": chosen.name,
            "bootID": boot_id,
            "kernelVersion": platform.release(),
            "osImage": "emulated node",
            "containerRuntimeVersion": "process://1.0",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": VERSION,
            "operatingSystem": "linux",
            "architecture": _architecture(),
        },
        "conditions": _conditions(pressure=pressure, previous=previous, now_ns=now_ns),
    }


def _conditions(*, pressure: bool, previous: Mapping[str, Any], now_ns: int) -> list[dict[str, Any]]:
    now = instants.format_time(now_ns)
    wanted = (
        ("MemoryPressure", pressure, "KubeletHasInsufficientMemory" if pressure else "KubeletHasSufficientMemory"),
        ("DiskPressure", False, "KubeletHasNoDiskPressure"),
        ("PIDPressure", False, "KubeletHasSufficientPID"),
        ("Ready", True, "KubeletReady"),
    )
    before = {entry.get("type"): entry for entry in previous.get("conditions") or ()}
    conditions = []
    for kind, holds, reason in wanted:
        value = "True" if holds else "False"
        seen = before.get(kind, {})
        since = seen.get("lastTransitionTime") if seen.get("status") == value else None
        conditions.append(
            {
                "type": kind, "status": value, "reason": reason, "message": "reported by the emulated kubelet",
                "lastHeartbeatTime": now, "lastTransitionTime": since or now,
            }
        )  # fmt: skip
    return conditions


class Registration:
    """Keep one Node registered; `labels` are the Node's as last seen, including those set by users."""

    def __init__(
        self, api: api_actions.Api, chosen: settings.NodeSettings, *, clock: clocks.Clock, group: groups.Group | None
    ) -> None:
        self._api = api
        self._chosen = chosen
        self._clock = clock
        self._group = group
        self._boot_id = clocks.boot_id(clock)
        self._log_port = 0
        self._seen: Mapping[str, Any] = {}
        self._lease: kubernetes_lease.Lease | None = None
        self.labels: Mapping[str, str] = labels(chosen.name)

    async def register(self, *, log_port: int) -> None:
        """Create the Node, its status and its Lease; retry while the API is unavailable."""
        self._log_port = log_port
        is_logged = False
        while True:
            try:
                await self._take_place()
                # The status first: Pods may arrive from then on, and watchers of Leases wait for 40 s anyway.
                await self._write_status(pressure=self._has_pressure())
                return await self._renew()
            except errors.ApiUnavailable as error:
                if not is_logged:
                    is_logged = True
                    _log.info("waiting_for_api", why=str(error))
                await asyncio.sleep(0.25)

    async def _take_place(self) -> None:
        """Create the Node, or take over the existing one; labels, taints and a cordon set by users are kept."""
        try:
            self._learn(await self._api.request("POST", "/api/v1/nodes", body=node_object(self._chosen)))
        except errors.Conflict:
            patch = {"metadata": {"labels": labels(self._chosen.name), "annotations": annotations(self._chosen)}}
            self._learn(await api_actions.patch_node(self._api, node=self._chosen.name, patch=patch))
            if DRAINING_ANNOTATION in (self._seen["metadata"].get("annotations") or {}):
                await self._cordon(None)

    async def cordon(self) -> None:
        """Mark the Node unschedulable. Raises the client's errors."""
        await self._cordon(True)

    async def _cordon(self, value: bool | None) -> None:
        mark = None if value is None else "true"
        patch = {"metadata": {"annotations": {DRAINING_ANNOTATION: mark}}, "spec": {"unschedulable": value}}
        self._learn(await api_actions.patch_node(self._api, node=self._chosen.name, patch=patch))

    async def remove(self) -> None:
        """Delete Node and Lease. Raises the client's errors."""
        await self._api.request("DELETE", f"/api/v1/nodes/{self._chosen.name}")
        leases = api_actions.LEASES_PATH.format(namespace=LEASE_NAMESPACE)
        await self._api.request("DELETE", f"{leases}/{self._chosen.name}")

    async def refresh(self) -> None:
        """Read the Node again. Raises the client's errors."""
        self._learn(await self._api.request("GET", f"/api/v1/nodes/{self._chosen.name}"))

    async def run_lease(self) -> None:
        """Renew the Lease until cancelled."""
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                await self._renew()
            except (errors.ApiError, errors.ApiUnavailable) as error:
                self._lease = None
                _log.warning("lease_not_renewed", why=str(error))

    async def run_status(self) -> None:
        """Write the status every 10 s, and at once when the pressure changes, until cancelled."""
        written, written_s = self._has_pressure(), self._clock.monotonic_s()
        while True:
            await asyncio.sleep(LOOK_S)
            pressure = self._has_pressure()
            if pressure == written and self._clock.monotonic_s() - written_s < STATUS_S:
                continue
            try:
                await self._write_status(pressure=pressure)
            except errors.NotFound:
                # The Node was deleted: register again, as a kubelet does.
                await self.register(log_port=self._log_port)
            except (errors.ApiError, errors.ApiUnavailable) as error:
                _log.warning("status_not_written", why=str(error))
            written, written_s = pressure, self._clock.monotonic_s()

    async def _write_status(self, *, pressure: bool) -> None:
        previous = self._seen.get("status") or {}
        found = node_status(
            self._chosen,
            log_port=self._log_port,
            pressure=pressure,
            previous=previous,
            now_ns=self._clock.wall_ns(),
            boot_id=self._boot_id,
        )
        self._learn(await api_actions.patch_node_status(self._api, node=self._chosen.name, status=found))

    async def _renew(self) -> None:
        now_ns = self._clock.wall_ns()
        lease = self._lease or await api_actions.get_lease(self._api, namespace=LEASE_NAMESPACE, name=self._chosen.name)
        if lease is None:
            fresh = kubernetes_lease.Lease(
                namespace=LEASE_NAMESPACE, name=self._chosen.name, holder=self._chosen.name, duration_s=LEASE_S,
                acquired_at_ns=now_ns, renewed_at_ns=now_ns,
            )  # fmt: skip
            self._lease = await api_actions.create_lease(self._api, fresh)
            return
        renewed = dataclasses.replace(lease, holder=self._chosen.name, duration_s=LEASE_S, renewed_at_ns=now_ns)
        self._lease = await api_actions.update_lease(self._api, renewed)

    def _learn(self, node: Mapping[str, Any]) -> None:
        self._seen = node
        self.labels = node["metadata"].get("labels") or {}

    def _has_pressure(self) -> bool:
        used = None if self._group is None else self._group.memory_used_bytes()
        return used is not None and self._chosen.memory_bytes - used < PRESSURE_BYTES * self._chosen.scale


def _architecture() -> str:
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
