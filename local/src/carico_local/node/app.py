"""One emulated node, assembled from cgroup, runtime, log endpoint, registration and Pods."""

import asyncio
import dataclasses
import errno
import os
import pathlib
import random
import secrets
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions, api_client, cluster_access
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import connections, tasks
from carico_core.runtime.process import settings as reading
from carico_local.api import access
from carico_local.cgroups import layout, node_group
from carico_local.node import settings
from carico_local.node.containers import command as container_command
from carico_local.node.pods import kubelet
from carico_local.node.reporting import draining, events, log_server, registration, reporter
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records, users

ROOM_EVERY_S = 0.5
_PROGRAM = "carico-node"
_log = logs.get("node")


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of the process."""
    try:
        chosen = reading.load(settings.NodeSettings, prefix="NODE", argv=argv, program=_PROGRAM)
    except errors.UserError as error:
        return tasks.report(error, program=_PROGRAM)
    logs.setup(service="node")
    return tasks.run(lambda stop: serve(chosen, clocks.SystemClock(), stop), program=_PROGRAM)


async def serve(chosen: settings.NodeSettings, clock: clocks.Clock, stop: tasks.Stop) -> None:
    """Run the node until `stop`, and remove everything of it but its API object.

    A node that fails, or is stopped before the API has listed its Pods, leaves those of an earlier process running: its
    next process finds them.
    """
    found = layout.read_layout() if chosen.cgroups == "auto" else layout.Layout(version=layout.Version.NONE, trees={})
    opened = _open_group(chosen, found)
    runtime_group = None if opened.group is None else node_group.runtime_group(found, chosen.cluster, chosen.name)
    pod_users = users.of_node(allow_root=chosen.allow_root)
    kept = _open_records(chosen.root, pod_users)
    containers = runtime.Runtime(kept.root, runtime_group=runtime_group, closed=chosen.closed)
    # Connects while the Node is registered: Pods can only arrive after that.
    connected = asyncio.create_task(containers.connect(), name="runtime")
    has_ended_pods = False
    try:
        client = await api_client.connect(
            api_client.KubeSettings(kubeconfig=chosen.kubeconfig), clock=clock, user_agent=f"carico-node/{chosen.name}"
        )
        try:
            has_ended_pods = await _run(
                chosen, clock, stop,
                client=client, opened=opened, kept=kept, pod_users=pod_users, containers=containers,
                connected=connected,
            )  # fmt: skip
        finally:
            await client.close()
    finally:
        # A node that ends this early still has a runtime to end.
        await asyncio.gather(connected, return_exceptions=True)
        is_empty = has_ended_pods or not kept.pods()
        await containers.close(quit_runtime=is_empty)
        if is_empty:
            await asyncio.to_thread(_remove, opened, runtime_group, found, chosen.cluster)


def _open_group(chosen: settings.NodeSettings, found: layout.Layout) -> node_group.NodeGroup:
    """Return the node's cgroup; without one, log why."""
    opened = node_group.open_node(
        found, cluster=chosen.cluster, node=chosen.name, cores=chosen.real_cores, memory_bytes=chosen.memory_bytes,
        period_us=settings.QUOTA_PERIOD_US,
    )  # fmt: skip
    if chosen.cgroups == "none":
        opened = dataclasses.replace(opened, reason="as requested")
    if opened.group is None:
        _log.warning("fallback", fallback=opened.fallback, why=opened.reason, note="Pods run without quota and limits")
    return opened


async def _run(
    chosen: settings.NodeSettings, clock: clocks.Clock, stop: tasks.Stop, *, client: api_client.KubeClient,
    opened: node_group.NodeGroup, kept: records.Records, pod_users: users.ContainerUsers, containers: runtime.Runtime,
    connected: "asyncio.Task[frozenset[str]]",
) -> bool:  # fmt: skip
    """Return whether it knew its Pods, and has ended them."""
    rng = random.Random(chosen.name)
    recorder = api_actions.EventRecorder(client, clock=clock, controller="kubelet", instance=chosen.name)
    node = container_command.NodeParts(
        chosen=chosen, clock=clock, group=opened.group, records=kept, runtime=containers,
        reporter=reporter.Reporter(client, rng), events=events.Events(recorder), api=client, users=pod_users,
    )  # fmt: skip
    registered = registration.Registration(client, chosen, clock=clock, group=opened.group)
    labels = kubelet.NodeLabels(lambda: registered.labels, registered.refresh)
    pods = kubelet.Kubelet(node, labels=labels)
    server = log_server.LogServer(kept, find=pods.find, clock=clock)
    log_token = await _log_token(chosen, clock)
    async with server.listening(chosen.address, chosen.log_port, token=log_token, tls=_log_tls(chosen)) as port:
        try:
            await tasks.unless(stop, registered.register(log_port=port))
            if not stop.is_set:
                await connected
                params = {"fieldSelector": f"spec.nodeName={chosen.name}"}
                drained = tasks.Stop()
                await tasks.until(
                    drained,
                    pods=pods.run(client.mirror("/api/v1/pods", params=params)),
                    lease=registered.run_lease(),
                    status=registered.run_status(),
                    events=node.events.run(),
                    # The Node is Ready: its Lease is renewed also while there is no room for the file that says so.
                    announcing=_announce(chosen, opened),
                    leaving=draining.run(stop, drained, node=registered, pods=pods, within_s=chosen.drain_s),
                )
            await draining.end(pods, node.reporter, grace_s=settings.STOP_GRACE_S)
            if chosen.leave and (pods.is_listed or not kept.pods()):
                await draining.leave(registered)
            return pods.is_listed
        finally:
            await node.reporter.close()


def _open_records(root: pathlib.Path, pod_users: users.ContainerUsers) -> records.Records:
    try:
        return records.open_root(root, is_private=pod_users.default is not None)
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"cannot create the directories of the node's Pods at {error.filename} ({error.strerror}): make it "
            "writable, or run as an ordinary user"
        ) from error


async def _log_token(chosen: settings.NodeSettings, clock: clocks.Clock) -> str:
    """Return the token of the log endpoint: from the embedded API's own, which is in the node's kubeconfig."""
    loaded = await asyncio.to_thread(cluster_access.load, chosen.kubeconfig, context="", environ={}, clock=clock)
    kind, _, token = (await loaded.credentials.authorization() or "").partition(" ")
    # Without one, only TLS with certificates gives access.
    return access.kubelet_token(token, chosen.name) if kind == "Bearer" else secrets.token_hex()


def _log_tls(chosen: settings.NodeSettings) -> ssl.SSLContext | None:
    """Return TLS for the log endpoint: a real API server connects to kubelets in no other way."""
    if chosen.log_certificate is None:
        return None
    return connections.read_tls(
        chosen.log_certificate, chosen.log_key, authority=chosen.log_authority,
        flags="--log-certificate, --log-key, --log-authority",
    )  # fmt: skip


async def _announce(chosen: settings.NodeSettings, opened: node_group.NodeGroup) -> None:
    """Let others find the node; run until cancelled."""
    cgroup: dict[str, Any] | None = None
    if opened.group is not None:
        trees = {name: str(root / opened.group.path) for name, root in opened.group.layout.trees.items()}
        cgroup = {"path": opened.group.path, "layout": opened.group.layout.version.value, "trees": trees}
    ready = {
        "node": chosen.name,
        "pid": os.getpid(),
        "cgroup": cgroup,
        "fallback": opened.fallback,
        "reason": opened.reason,
    }
    _log.info("ready", **ready)
    if chosen.ready_file is not None:
        await write_ready(chosen.ready_file, ready)
    await asyncio.Event().wait()


async def write_ready(path: pathlib.Path, ready: Mapping[str, Any]) -> None:
    """Write the file by which others find the node, once the disk has room: a node that ended would start too late."""
    is_said = False
    while True:
        try:
            return records.write_json(path, dict(ready))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if not is_said:
                _log.warning("not_announced", file=str(path), why=str(error), note="waiting for room on the disk")
                is_said = True
        await asyncio.sleep(ROOM_EVERY_S)


def _remove(opened: node_group.NodeGroup, runtime_group: Any, found: layout.Layout, cluster: str) -> None:
    for group in (opened.group, runtime_group):
        if group is not None and not group.destroy():
            _log.error("cgroup_left", path=group.path)
    node_group.remove_if_empty(found, cluster)
