"""`carico status`: services, nodes and jobs of a cluster."""

import asyncio
import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

import click

from carico_cli.clusters import local_services, status_text, which
from carico_cli.live import addresses, connection, members, reader, services
from carico_cli.live import picture as pictures
from carico_cli.output import formats
from carico_cli.shell import settings
from carico_cli.top import once
from carico_core.domain import errors, messages, names
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness
from carico_local.cluster import folders, machine, processes, state
from carico_local.cluster.services import probes

if TYPE_CHECKING:
    from carico_cli.live import ports
    from carico_core.runtime.kube import api_actions

# A busy machine takes a second; a frozen API is not waited for.
_ANSWER_S = 2.0
# NATS, the scheduler and the API are asked at the same time; a busy machine takes a second.
_HEARD_S = 5.0
# Longer than an API may take that is not reported as silent (`carico_cli.live.pods.ANSWER_S`).
_PODS_S = 3.0
# Where local schedulers elect their leader (`carico_scheduler.settings.PROGRAM`).
_LEASE_NAMESPACE = "kube-system"
# A process is some ticks older than its age; a clock may be set a little.
_CLOCKS_S = 0.5
# Only then schedulers send heartbeats, for which to wait takes a second.
_SHARED = "shared"


@click.command("status")
@which.name_flag
@formats.flag(formats.Output.JSON, formats.Output.WIDE)
@click.pass_obj
def command(context: settings.Context, name: str | None, output: formats.Output) -> int:
    """Show services, nodes and jobs. Exit code 1 if something is not ready."""
    meant = which.meant(context, which.Flags(name=name), need=which.Need.STATE)
    paths = folders.find(context.home, meant.local_name("`carico top --once` shows nodes, jobs and services"))
    found = state.read(paths)
    running = folders.is_running(paths)
    if found is None:
        raise errors.SettingsError(f"cluster {paths.name!r} has not started: see {paths.log('supervisor')}")
    view = _services(found, running=running)
    if running and (full := machine.disk_shortage(paths.root)) is not None:
        # The supervisor cannot write its state either, so it does not report this.
        view["notes"].append(full)
    if running and found.phase is state.Phase.READY:
        asyncio.run(_ask(context, paths, found, view))
        if not folders.is_running(paths):
            # It ended meanwhile: what was asked may be of before, or of parts that were ending.
            running, view = False, _services(found, running=False)
    if output is formats.Output.JSON:
        formats.say(formats.json_text(view))
    else:
        formats.say(status_text.text(view, now_ns=clocks.SystemClock().wall_ns(), wide=output is formats.Output.WIDE))
    return 0 if running and all(row["ready"] for row in view["services"]) else 1


def _services(found: state.ClusterState, *, running: bool) -> dict[str, Any]:
    return {
        "name": found.plan.name,
        "phase": found.phase.value if running else status_text.NOT_RUNNING,
        "nats_url": found.public_nats_url,
        "api_url": found.api_url,
        "services": local_services.rows(found, running=running),
        "crashes": [{"service": crash.service, "how": crash.how, "at_ns": crash.at_ns} for crash in found.crashes],
        "notes": list(found.notes),
        "failure": found.failure,
        "leader": None,
        "schedulers": [],
        "nodes": [],
        "jobs": [],
        "waiting": None,
        "moves_paused": None,
        "api_trouble": None,
    }


async def _ask(
    context: settings.Context, paths: folders.Paths, found: state.ClusterState, view: dict[str, Any]
) -> None:  # fmt: skip
    """Add what services, bus and API answer now."""
    # Services first, alone: what is imported for bus and API holds this process up, on a busy machine for longer than a
    # service has for its answer.
    await local_services.ask(view["services"], found)
    live = await _live(context, paths, found)
    _mark(view["services"], live.unready, bus_trouble=live.bus_trouble)
    view["leader"] = live.leader
    if live.bus_trouble is None:
        view["schedulers"] = members.rows(live.heard)
        view["nodes"] = _nodes(live.seen, found)
        view["moves_paused"] = live.moves_paused
    view["api_trouble"] = live.api_trouble
    if live.api_trouble is None:
        view |= {"jobs": _jobs(live.seen), "waiting": _waiting(live.seen)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Live:
    """What bus and API answer.

    `unready`: nodes whose kubelet has stopped reporting; `heard`: schedulers that share; `leader`: which of several
    schedulers leads, empty if none does, None where one runs without election, or the API does not answer;
    `moves_paused`: see `services.moves_paused`.
    """

    seen: pictures.Picture
    heard: list[messages.Heartbeat]
    unready: set[str]
    leader: str | None
    moves_paused: str | None
    bus_trouble: str | None
    api_trouble: str | None


async def _live(context: settings.Context, paths: folders.Paths, found: state.ClusterState) -> _Live:
    """Return nodes and jobs as they are now."""
    address = addresses.of_state(paths, found)
    async with connection.api_of(
        address, clocks.SystemClock(), context.environ, name="carico-status"
    ) as api, connection.reading(
        address, context.environ, name="carico-status", firsts=(reader.KEPT, reader.SCHEDULER, reader.PODS),
        is_brief=True,
    ) as read:  # fmt: skip
        unready, leader, _ = await asyncio.gather(
            _unready_nodes(api, found), _leader(api, found), _wait_for_answers(read)
        )
        heard = await _members(read.bus) if found.plan.sharing == _SHARED else []
        paused = await _moves_paused(read.bus) if found.plan.rescheduler else None
        if read.bus_trouble is not None:
            await _read_pods(read, api)
        elif not any(node.freshness is freshness.Freshness.FRESH for node in read.picture().nodes):
            # NATS may store nothing now, as with a full disk: then what arrives is newer.
            await asyncio.sleep(pictures.ADVERTISED_WITHIN_S)
        return _Live(
            seen=read.picture(), heard=heard, unready=unready, leader=leader, moves_paused=paused,
            bus_trouble=read.bus_trouble, api_trouble=read.api_trouble,
        )  # fmt: skip


async def _read_pods(read: reader.Reader, api: "ports.Api") -> None:
    """Read the Pods without a bus: until it has one, the reader asks for none."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(read.follow_pods(api), _PODS_S)


async def _members(bus: members.Bus | None) -> list[messages.Heartbeat]:
    if bus is None:
        return []
    try:
        return await members.listen(bus)
    except errors.BusError:
        return []


async def _moves_paused(bus: services.Bus | None) -> str | None:
    return None if bus is None else await services.moves_paused(bus, timeout_s=_ANSWER_S)


async def _wait_for_answers(read: reader.Reader) -> None:
    """Wait until every source has answered, or has had time to."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(read.complete.wait(), _HEARD_S)


class _Api(Protocol):
    """The Kubernetes API."""

    async def request(self, method: str, path: str) -> Any: ...


async def _unready_nodes(api: _Api, found: state.ClusterState) -> set[str]:
    """Return the nodes whose kubelet has stopped reporting; none where the API does not answer (reported elsewhere)."""
    if not found.plan.service_nodes:
        return set()
    # Imported here, as below: most large clusters have neither such nodes nor several schedulers.
    from carico_core.wire.kubernetes import api_objects

    with contextlib.suppress(TimeoutError, errors.CaricoError, ValueError):
        async with asyncio.timeout(_ANSWER_S):
            nodes = [api_objects.parse_node(item) for item in (await api.request("GET", "/api/v1/nodes"))["items"]]
            return {node.name for node in nodes if not node.ready}
    return set()


async def _leader(api: "api_actions.Api", found: state.ClusterState) -> str | None:
    """Return which of several schedulers holds the Lease; empty if none does, None if that is not known."""
    if found.plan.schedulers == 1 and found.plan.sharing != _SHARED:
        return None
    from carico_core.runtime.kube import api_actions

    try:
        lease = await api_actions.get_lease(
            api, namespace=_LEASE_NAMESPACE, name=status_text.LEASE, timeout_s=_ANSWER_S
        )
    except errors.CaricoError:
        return None
    if lease is None:
        return ""
    # The holder's clock is that of this machine.
    now_ns = clocks.SystemClock().wall_ns()
    holder = names.replica_of(lease.holder)
    if (now_ns - lease.renewed_at_ns) / 1e9 > lease.duration_s:
        return ""
    # One that has ended holds nothing, and one that was started again does not hold the Lease of its last start.
    held_by = [each.process for each in found.services if each.name == holder]
    ran_s = [None if process is None else processes.age_s(process) for process in held_by]
    held_s = (now_ns - lease.acquired_at_ns) / 1e9
    return "" if any(age_s is None or age_s + _CLOCKS_S < held_s for age_s in ran_s) else holder


def _mark(services: list[dict[str, Any]], unready: set[str], *, bus_trouble: str | None) -> None:
    """Mark frozen nodes by their Node objects, and NATS by its silence: neither has a health page."""
    for row in services:
        if row["ready"] and row["name"].removeprefix("node/") in unready:
            row["ready"], row["why_not"] = False, "its Node is not ready: it has stopped reporting to the API"
        elif row["ready"] and row["name"] == probes.NATS and bus_trouble is not None:
            # Its process exists and does not answer: it is frozen, or lacks CPU.
            row["ready"], row["why_not"] = False, "it does not answer"


def _nodes(seen: pictures.Picture, found: state.ClusterState) -> list[dict[str, Any]]:
    by_name = {node.name: node for node in seen.nodes}
    return [_node(name, by_name.get(name)) for name in found.plan.node_names]


def _node(name: str, node: pictures.Node | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name, "freshness": "absent", "pods": None, "capacity": None, "capacity_sd": None, "mode": None,
        "reserved": None, "free": None, "cpu": None, "memory": None, "bottleneck": None, "age_s": None,
    }  # fmt: skip
    if node is None:
        return row
    row |= {"freshness": node.freshness.value, "reserved": node.reserved}
    row |= {"free": once.rounded(node.free), "age_s": once.rounded(node.age_s)}
    said = node.advertisement
    if said is not None:
        row |= {
            "pods": said.pods, "capacity": once.rounded(said.capacity), "capacity_sd": once.rounded(said.capacity_sd),
            "mode": said.mode.value, "cpu": said.usage.get("cpu"), "memory": said.usage.get("memory"),
            "bottleneck": said.bottleneck,
        }  # fmt: skip
    return row


def _jobs(seen: pictures.Picture) -> list[dict[str, Any]]:
    return [
        {
            "name": job.name, "pods": job.pods, "pending": job.pending + job.starting, "running": job.running,
            "succeeded": job.succeeded, "failed": job.failed,
        }
        for job in seen.jobs
    ]  # fmt: skip


def _waiting(seen: pictures.Picture) -> dict[str, Any]:
    """Return how many Pods wait for a node, and which of them has waited longest."""
    longest = seen.longest_waiting
    found: dict[str, Any] = {"pods": seen.waiting, "longest": None}
    if longest is not None:
        pod, waited_s = longest
        found["longest"] = {
            "namespace": pod.namespace, "name": pod.name, "class": pod.pod_class, "waited_s": round(waited_s, 1),
            "why": seen.why(pod),
        }  # fmt: skip
    return found
