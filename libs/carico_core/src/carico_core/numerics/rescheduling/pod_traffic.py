"""From what agents report of connections to the traffic of each pair of Pods.

Both ends of a connection are reported, each by its own node, if both nodes report. A client knows the server's address
and port, a server the client's address. So each end is resolved to Pods by itself, and of what the two ends report of
the same Pods and port the larger one counts: a report may be lost, or only one of the nodes may report.

- An endpoint is the Pod that serves it in any report, or the Pod that has the address for itself. Loopback addresses,
  which emulated nodes give to Pods, mean something only among reports of one network namespace.
- The virtual address of a Service is resolved by what its Pods report of the client, then by what they report of
  clients that they cannot identify, then evenly among its Pods that report nothing.

Pure: reports of one window of time in, bytes per second out.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from carico_core.domain.pod_telemetry import ANY_PORT, Endpoint, PodFlow, PodTraffic

Pair = tuple[str, str]
# Client, server, and the server's port.
_Key = tuple[str, str, int]
# Loopback addresses of every process.
_COMMON = frozenset({"127.0.0.1", "::1"})
# Where an endpoint is known: in the network namespace of a host for loopback, else everywhere.
_Place = tuple[str, Endpoint]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """What the API states of Pods and Services.

    nodes: each running Pod's node. pods: Pods by the address that each has for itself. services: the endpoints behind
    each virtual one.
    """

    nodes: Mapping[str, str]
    pods: Mapping[str, str]
    services: Mapping[Endpoint, Sequence[Endpoint]] = dataclasses.field(default_factory=dict)


class Joined(NamedTuple):
    """Bytes per second between two Pods in both directions, by sorted UIDs; and those of which one end is unknown.

    Flows of a Pod that is gone, or on another node than the one that reports them, are unknown, too.
    """

    pairs: Mapping[Pair, float]
    unresolved: float


@dataclasses.dataclass(slots=True)
class _Ends:
    """What the client's end and the server's end report of the same bytes."""

    client: float = 0.0
    server: float = 0.0


def join(reports: Iterable[PodTraffic], addresses: Addresses) -> Joined:
    """Return the traffic of each pair of Pods over the time of `reports`, of which each counts once."""
    kept = [report for report in reports if report.interval_s > 0.0]
    seconds: dict[str, float] = collections.defaultdict(float)
    for report in kept:
        seconds[report.node] += report.interval_s
    joining = _Joining(addresses, kept)
    for report in kept:
        for flow in report.flows:
            joining.add(report, flow, (flow.sent_bytes + flow.received_bytes) / seconds[report.node])
    return joining.joined()


def added(one: PodTraffic, later: PodTraffic) -> PodTraffic:
    """Return two reports of a node as one over the time of both; flows of the later one come last.

    Flows of a report over no time count for nothing, as in `join`.
    """
    flows: dict[tuple[str | None, Endpoint, Endpoint], PodFlow] = {}
    for flow in itertools.chain.from_iterable(each.flows for each in (one, later) if each.interval_s > 0.0):
        before = flows.pop(flow[:3], None)
        if before is not None:
            flow = flow._replace(
                sent_bytes=before.sent_bytes + flow.sent_bytes,
                received_bytes=before.received_bytes + flow.received_bytes,
            )
        flows[flow[:3]] = flow
    return dataclasses.replace(
        later, interval_s=one.interval_s + later.interval_s, flows=tuple(flows.values()),
        left_out_bytes=one.left_out_bytes + later.left_out_bytes,
    )  # fmt: skip


class _Joining:
    """Adds up rates by Pods, and resolves Services at the end."""

    def __init__(self, addresses: Addresses, reports: Sequence[PodTraffic]) -> None:
        self._addresses = addresses
        # The Pod that serves each endpoint as its node reports it, the last one if it has changed.
        self._served = {
            _place(report.network, flow.local): flow.pod
            for report in reports
            for flow in report.flows
            if flow.pod is not None
            and flow.local.port != ANY_PORT
            and self._is_on(report.node, flow.pod)
            # The API knows better than a report: no Pod serves at the address that another has for itself.
            and addresses.pods.get(flow.local.address, flow.pod) == flow.pod
        }
        self._reporting = frozenset(self._served.values())
        self._networks = {report.node: report.network for report in reports}
        self._ends: dict[_Key, _Ends] = collections.defaultdict(_Ends)
        # From a client to the virtual endpoint of a Service.
        self._to_services: dict[tuple[str, Endpoint], float] = collections.defaultdict(float)
        # At a server's port, from clients that are not known by their address.
        self._from_unknown: dict[tuple[str, int], float] = collections.defaultdict(float)
        self._unresolved = 0.0

    def add(self, report: PodTraffic, flow: PodFlow, rate: float) -> None:
        """Add what one end reports."""
        network = report.network
        own = self._at(network, flow.local) if flow.pod is None else flow.pod
        if own is None or not self._is_on(report.node, own):
            self._unresolved += rate
        elif flow.local.port == ANY_PORT:
            self._add_client(network, own, flow.remote, rate)
        else:
            client = self._at(network, flow.remote)
            if client is None:
                self._from_unknown[own, flow.local.port] += rate
            else:
                self._ends[client, own, flow.local.port].server += rate

    def joined(self) -> Joined:
        """Return the result."""
        for (_, server, port), ends in self._ends.items():
            # What clients report alone may be what the server reports of unknown clients.
            if (server, port) in self._from_unknown and ends.client > ends.server:
                left = self._from_unknown[server, port] - (ends.client - ends.server)
                self._from_unknown[server, port] = max(0.0, left)
        pairs: dict[Pair, float] = collections.defaultdict(float)
        extra = [
            (client, server, rate)
            for (client, virtual), whole in self._to_services.items()
            for server, rate in self._behind(client, virtual, whole)
        ]
        found = [(client, server, max(each.client, each.server)) for (client, server, _), each in self._ends.items()]
        for one, other, rate in (*found, *extra):
            if one != other:
                pairs[min(one, other), max(one, other)] += rate
        return Joined(dict(pairs), self._unresolved + sum(self._from_unknown.values()))

    def _add_client(self, network: str, client: str, remote: Endpoint, rate: float) -> None:
        server = self._at(network, remote)
        if server is not None:
            self._ends[client, server, remote.port].client += rate
        elif remote in self._addresses.services:
            self._to_services[client, remote] += rate
        else:
            self._unresolved += rate

    def _behind(self, client: str, virtual: Endpoint, rate: float) -> Iterable[tuple[str, float]]:
        """Yield the Pods behind a Service with what each exchanges with the client beyond what is in `_ends`."""
        places = self._addresses.services[virtual]
        servers = [(pod, each.port) for each in places if (pod := self._at("", each)) is not None]
        for pod, port in servers:
            ends = self._ends.get((client, pod, port), _Ends())
            rate -= max(0.0, ends.server - ends.client)
        for place in servers:
            if rate > 0.0 and self._from_unknown.get(place, 0.0) > 0.0:
                part = min(rate, self._from_unknown[place])
                self._from_unknown[place] -= part
                rate -= part
                yield place[0], part
        silent = [pod for pod, _ in servers if pod not in self._reporting]
        for pod in silent if rate > 0.0 else ():
            yield pod, rate / len(silent)
        if rate > 0.0 and not silent:
            self._unresolved += rate

    def _is_on(self, node: str, pod: str) -> bool:
        return self._addresses.nodes.get(pod) == node

    def _at(self, network: str, end: Endpoint) -> str | None:
        """Return the Pod at an endpoint."""
        served = self._served.get(_place(network, end))
        if served is not None or end.address in _COMMON:
            return served
        found = self._addresses.pods.get(end.address)
        if found is not None and is_loopback(end.address):
            node = self._addresses.nodes.get(found, "")
            return found if self._networks.get(node) == network else None
        return found


def is_loopback(address: str) -> bool:
    """Return whether an address means another machine on each machine."""
    return address.startswith("127.") or address == "::1"


def _place(network: str, end: Endpoint) -> _Place:
    return (network if is_loopback(end.address) else "", end)
