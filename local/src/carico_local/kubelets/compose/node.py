"""`python -m carico_local.kubelets.compose.node`: one node of `docker compose`: a real kubelet with its agent.

It derives the node from its container's name, address and limits, and then runs the entry script of every node.
"""

import asyncio
import contextlib
import os
import pathlib
import random
import secrets
import signal
import subprocess
import sys

from carico_agent.telemetry.proc import meminfo
from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import setting_values, settings, tasks
from carico_local.cluster.services import readiness
from carico_local.contained import identity as naming
from carico_local.contained import settings as contained_settings
from carico_local.contained import size
from carico_local.control_plane import identity
from carico_local.kubelets import configuration, instructions, programs
from carico_local.kubelets.compose import plane

CONFIG = pathlib.Path("/carico")
BUS_KEYS = pathlib.Path("/bus/agents")
_HEALTH_PORT, _AGENT_PORT = 10248, 8080
_LOOK_EVERY_S = 0.2
_log = logs.get("compose-node")


def main() -> int:
    """Return the exit code of the container: 0 where it was asked to stop."""
    logs.setup(service="compose-node")
    try:
        node = _write()
        return asyncio.run(_run(node))
    except errors.UserError as error:
        return tasks.report(error, program="carico-compose-node")


def _write() -> configuration.Node:
    """Write the node's configuration into /carico, and return the node."""
    address, own = naming.address(), size.read()
    name = naming.node_name(address, rng=random.Random(secrets.randbits(64)))
    if name not in plane.names():
        raise errors.SettingsError(
            f"a node's container: got the name {name!r}, expected PROJECT-node-NUMBER, as docker compose gives it"
        )
    node = plane.node(address, name=name, cpus=own.real_cores, memory_bytes=own.memory_bytes)
    identities = identity.Identities(plane.PLANE / "identities", settings.environment())
    scratch = CONFIG / "nodes"
    instructions.write(
        scratch, nodes=[node], network=plane.network(address), cluster=plane.NAME, identities=identities,
        url=f"https://{plane.HOST}:{plane.PORT}",
        machine=configuration.HostSize(cpus=float(os.cpu_count() or 1), memory_bytes=int(meminfo.total_bytes())),
        plugins=plane.PLUGINS,
    )  # fmt: skip
    for path in (scratch / name).iterdir():
        path.rename(CONFIG / path.name)
    within = plane.network(address)
    routes = (f"{other.pods} {other.address(within)}\n" for other in plane.others(node, address))
    (CONFIG / "routes").write_text("".join(routes), encoding="ascii")
    return node


async def _run(node: configuration.Node) -> int:
    """Run entry script and agent; return 0 where the container was asked to stop, 1 where one of them ended."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    entry = _start_entry()
    agent: subprocess.Popen[bytes] | None = None
    health = readiness.Http(port=_HEALTH_PORT, path="/healthz")
    try:
        while not asked.is_set():
            if entry.poll() is not None or (agent is not None and agent.poll() is not None):
                _log.error("program_ended", entry=entry.returncode, agent=agent.returncode if agent else None)
                return 1
            if agent is None and await health.why_not() is None:
                agent = _start_agent(node)
            await asyncio.sleep(_LOOK_EVERY_S)
    finally:
        for process in filter(None, (agent, entry)):
            process.terminate()
    await _leave(node.name)
    return 0


def _start_entry() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["/bin/sh", str(programs.ENTRY)])


def _start_agent(node: configuration.Node) -> "subprocess.Popen[bytes]":
    """Start the agent, which measures the container: its cgroup is the root of the mounted tree."""
    options: dict[str, object] = {
        "node": node.name, "scope": "cgroup", "cgroup": size.OWN_GROUP, "pod_events": "cgroup", "pod_classes": "roster",
        "http_host": "0.0.0.0", "http_port": _AGENT_PORT, "bus_nkey": contained_settings.bus_key(BUS_KEYS, node.name),
    }  # fmt: skip
    return subprocess.Popen([str(pathlib.Path(sys.prefix) / "bin/carico-agent"), *setting_values.flags(options)])


async def _leave(name: str) -> None:
    """Delete the Node from the API, and so its Pods, which no longer run."""
    chosen = api_client.KubeSettings(kubeconfig=str(plane.SHARED / "inside.yaml"))
    with contextlib.suppress(errors.ApiError, errors.ApiUnavailable):
        api = await api_client.connect(chosen, clock=clocks.SystemClock(), user_agent="carico-compose-node")
        try:
            await api.request("DELETE", f"/api/v1/nodes/{name}")
        finally:
            await api.close()


if __name__ == "__main__":
    sys.exit(main())
