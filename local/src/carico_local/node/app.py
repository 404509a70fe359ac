"""One emulated node, assembled: cgroup, runtime, log endpoint, registration, Pods."""

import asyncio
import contextlib
import dataclasses
import os
import random
import ssl
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions, api_client
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_local.cgroups import layout, node_group
from carico_local.node import settings, site
from carico_local.node.pods import kubelet
from carico_local.node.reporting import draining, events, log_server, registration, reporter
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records

# What is left to say when the node stops must not hold up who stopped it. An API that is there takes milliseconds, or,
# where the machine is short of CPUs, some seconds; a Pod whose end was not said would read as running for ever.
_DRAIN_S = 4.0
_log = logs.get("node")


async def serve(chosen: settings.NodeSettings, clock: clocks.Clock, stop: tasks.Stop) -> None:
    """Run the node until it is asked to end and nothing of it is left but its object in the API."""
    found = layout.read_layout() if chosen.cgroups == "auto" else layout.Layout(version=layout.Version.NONE, trees={})
    opened = node_group.open_node(
        found, cluster=chosen.cluster, node=chosen.name, cores=chosen.real_cores, memory_bytes=chosen.memory_bytes,
        period_us=round(chosen.quota_period_ms * 1000),
    )  # fmt: skip
    if chosen.cgroups == "none":
        opened = dataclasses.replace(opened, reason="as was asked for")
    if opened.group is None:
        _log.warning("fallback", fallback=opened.fallback, why=opened.reason, note="Pods run without quota and limits")
    beside = None if opened.group is None else node_group.runtime_group(found, chosen.cluster, chosen.name)
    kept = runtime.ensure_root(chosen.root)
    containers = runtime.Runtime(kept.root, runtime_group=beside)
    # Started while the Node is registered: Pods come once the API knows of the node.
    connected = asyncio.create_task(containers.connect(), name="runtime")
    try:
        client = await api_client.connect(
            api_client.KubeSettings(kubeconfig=chosen.kubeconfig), clock=clock, user_agent=f"carico-node/{chosen.name}"
        )
        try:
            await _run(
                chosen, clock, stop,
                client=client, opened=opened, kept=kept, containers=containers, connected=connected,
            )  # fmt: skip
        finally:
            await client.close()
    finally:
        # A node that ends this early has a runtime to end too.
        await asyncio.gather(connected, return_exceptions=True)
        await containers.close(quit_runtime=True)
        await asyncio.to_thread(_remove, opened, beside, found, chosen.cluster)


async def _run(
    chosen: settings.NodeSettings,
    clock: clocks.Clock,
    stop: tasks.Stop,
    *,
    client: api_client.KubeClient,
    opened: node_group.NodeGroup,
    kept: records.Records,
    containers: runtime.Runtime,
    connected: "asyncio.Task[frozenset[str]]",
) -> None:
    rng = random.Random(chosen.name)
    recorder = api_actions.EventRecorder(client, clock=clock, controller="kubelet", instance=chosen.name)
    node = site.Site(
        chosen=chosen, clock=clock, group=opened.group, records=kept, runtime=containers,
        reporter=reporter.Reporter(client, rng), events=events.Events(recorder), api=client,
    )  # fmt: skip
    registered = registration.Registration(client, chosen, clock=clock, group=opened.group)
    labels = kubelet.NodeLabels(lambda: registered.labels, registered.refresh)
    pods = kubelet.Kubelet(node, labels=labels)
    server = log_server.LogServer(kept, find=pods.pod_directory, clock=clock)
    port = await _listen(server, chosen)
    try:
        await _or_stop(registered.register(log_port=port), stop)
        if not stop.is_set:
            await connected
            _announce(chosen, opened)
            params = {"fieldSelector": f"spec.nodeName={chosen.name}"}
            drained = tasks.Stop()
            await tasks.until(
                drained,
                pods=pods.run(client.mirror("/api/v1/pods", params=params)),
                lease=registered.run_lease(),
                status=registered.run_status(),
                events=node.events.run(),
                leaving=draining.run(stop, drained, node=registered, pods=pods, within_s=chosen.drain_s),
            )
        await pods.shut_down(grace_s=chosen.stop_grace_s)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(node.reporter.drain(), _DRAIN_S)
        pods.discard()
        if chosen.leave:
            await draining.leave(registered)
    finally:
        await node.reporter.close()
        await server.close()


async def _listen(server: log_server.LogServer, chosen: settings.NodeSettings) -> int:
    try:
        return await server.start(chosen.address, chosen.log_port, tls=_log_tls(chosen))
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"cannot listen on {chosen.address}:{chosen.log_port} ({error.strerror}): "
            "end what uses the port, or give --log-port 0 for a free one"
        ) from error


def _log_tls(chosen: settings.NodeSettings) -> ssl.SSLContext | None:
    """Return TLS of the log endpoint, for a real API server, which asks kubelets in no other way."""
    if chosen.log_certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chosen.log_certificate, chosen.log_key)
    if chosen.log_authority is not None:
        context.load_verify_locations(chosen.log_authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def _or_stop(work: Any, stop: tasks.Stop) -> None:
    """Wait until the work is done, or cancel it when `stop` comes first."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


def _announce(chosen: settings.NodeSettings, opened: node_group.NodeGroup) -> None:
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
        records.write_json(chosen.ready_file, ready)


def _remove(opened: node_group.NodeGroup, beside: Any, found: layout.Layout, cluster: str) -> None:
    for group in (opened.group, beside):
        if group is not None and not group.destroy():
            _log.error("cgroup_left", path=group.path)
    node_group.remove_if_empty(found, cluster)
