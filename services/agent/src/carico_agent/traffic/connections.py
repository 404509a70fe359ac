"""From the sockets of one network namespace, poll after poll, to the bytes of each pair of endpoints. Pure.

    unseen -> followed (each poll adds what has been transferred) -> ended (an event has the last bytes) -> forgotten

A connection that lives between two polls is in an event only. Events have no process and no cgroup, so its Pod follows
from the namespace if that is one Pod's, from the listening socket for a server's end, or from a loopback address that
one Pod has for itself.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from carico_agent.traffic import inet_diag
from carico_core.domain import pod_telemetry

# An event may come late; until then the socket is remembered.
POLLS_KEPT = 3
# A socket whose process is in none of the node's Pods at so many polls belongs to none of them. A runtime may move a
# process into its cgroup after it has started.
LOOKUPS_MOST = 2
# Listening sockets and addresses are remembered for as many polls: a server may stop listening before its connections
# end.
PLACES_KEPT = 60
_WILDCARDS = frozenset({"0.0.0.0", "::"})
_COMMON_LOOPBACK = frozenset({"127.0.0.1", "::1"})


@dataclasses.dataclass(slots=True)
class _Followed:
    """One connection. `pod` is None until it is known."""

    local: pod_telemetry.Endpoint
    remote: pod_telemetry.Endpoint
    sent_bytes: int
    received_bytes: int
    pod: str | None = None
    lookups: int = 0
    seen: int = 0


class _Place(NamedTuple):
    """A listening socket or an address, and the Pod that has it; None if it is of no Pod, or of several."""

    pod: str | None
    seen: int


class Connections:
    """Follows the connections of one network namespace."""

    def __init__(
        self, owner: Callable[[inet_diag.Socket], str | None], *, only_pod: str | None = None, is_new: bool = False
    ) -> None:  # fmt: skip
        """`owner` returns the UID of the Pod that has a socket of a dump; `only_pod` has the whole namespace.

        `is_new`: the namespace began while its node was followed, so that all of its traffic counts.
        """
        self._owner = owner
        self._only_pod = only_pod
        self._followed: dict[int, _Followed] = {}
        self._listeners: dict[pod_telemetry.Endpoint, _Place] = {}
        self._addresses: dict[str, _Place] = {}
        # Cookies of the connections from loopback addresses that one Pod may have for itself.
        self._on_addresses: set[int] = set()
        self._polls = 1 if is_new else 0
        # Readings that were skipped because a counter had decreased.
        self.decreased = 0

    def unknown(self, dumped: Iterable[inet_diag.Socket]) -> list[inet_diag.Socket]:
        """Return the sockets of a dump whose owners have to be looked up."""
        if self._only_pod is not None:
            return []
        found = []
        for each in dumped:
            if each.is_listening:
                if each.local not in self._listeners:
                    found.append(each)
            elif each.inode:
                known = self._followed.get(each.cookie)
                if known is None or (known.pod is None and known.lookups < LOOKUPS_MOST):
                    found.append(each)
        return found

    def take(
        self, dumped: Sequence[inet_diag.Socket], ended: Sequence[inet_diag.Socket]
    ) -> list[pod_telemetry.PodFlow]:  # fmt: skip
        """Take in a dump, and the sockets that have ended up to now; return the bytes since the last poll."""
        is_first = self._polls == 0
        self._polls += 1
        self._listen(dumped)
        flows = []
        # Nearly all sockets of a dump are known and of another Pod, or have transferred nothing: they must cost little.
        for each in dumped:
            if each.is_listening:
                continue
            known = self._followed.get(each.cookie)
            if known is None:
                known = self._begin(each, is_new=not is_first)
            known.seen = self._polls
            if known.pod is None and known.lookups < LOOKUPS_MOST:
                known.pod = self._owner_of(each)
                known.lookups += each.inode != 0
            if known.pod is not None and (
                each.sent_bytes != known.sent_bytes or each.received_bytes != known.received_bytes
            ):
                flows.append(self._flow(known, each.sent_bytes, each.received_bytes))
        self._learn_addresses()
        flows += [
            self._last_flow(each)
            for each in ended
            # What ends before the first poll may have begun long ago.
            if not is_first or each.cookie in self._followed
        ]
        self._forget()
        return [flow for flow in flows if flow is not None]

    def _listen(self, dumped: Iterable[inet_diag.Socket]) -> None:
        for each in dumped:
            if each.is_listening:
                known = self._listeners.get(each.local)
                pod = known.pod if known is not None and known.pod is not None else self._owner_of(each)
                self._listeners[each.local] = _Place(pod, self._polls)

    def _begin(self, found: inet_diag.Socket, *, is_new: bool) -> _Followed:
        known = self._followed[found.cookie] = self._unseen_yet(found)
        if not is_new:
            # What was transferred before the first poll is not counted.
            known.sent_bytes, known.received_bytes = found.sent_bytes, found.received_bytes
        if found.inode and _is_loopback(known.local.address) and known.local.address not in _COMMON_LOOPBACK:
            self._on_addresses.add(found.cookie)
        return known

    def _unseen_yet(self, found: inet_diag.Socket) -> _Followed:
        local, remote = self._ends(found)
        # The SYN of a client is acknowledged like a byte.
        return _Followed(local, remote, 1 if local.port == pod_telemetry.ANY_PORT else 0, 0)

    def _last_flow(self, ended: inet_diag.Socket) -> pod_telemetry.PodFlow | None:
        """Return what has been transferred since the last poll, or in all if it was never in a dump."""
        known = self._followed.pop(ended.cookie, None)
        if known is None:
            known = self._unseen_yet(ended)
        if known.pod is None and known.lookups < LOOKUPS_MOST:
            # Never in a dump, or its process had closed it by the time that its files were read.
            known.pod = self._pod_of_ended(ended, known.local)
        # The FIN of each end counts as a byte, too. Where the other end closes some 40 ms later, its FIN has not come
        # yet, and a byte too few is counted.
        sent, received = ended.sent_bytes - 1, ended.received_bytes - 1
        return self._flow(known, max(sent, known.sent_bytes), max(received, known.received_bytes))

    def _pod_of_ended(self, ended: inet_diag.Socket, local: pod_telemetry.Endpoint) -> str | None:
        place: _Place | None = None
        if local.port != pod_telemetry.ANY_PORT:
            place = self._listener(ended.local)
        if place is None or place.pod is None:
            place = self._addresses.get(local.address)
        return self._only_pod if place is None else place.pod

    def _flow(self, known: _Followed, sent_bytes: int, received_bytes: int) -> pod_telemetry.PodFlow | None:
        """Return what has been transferred since the last poll; it waits while the Pod is unknown."""
        if known.pod is None:
            return None
        sent, received = sent_bytes - known.sent_bytes, received_bytes - known.received_bytes
        known.sent_bytes, known.received_bytes = sent_bytes, received_bytes
        if sent < 0 or received < 0:
            self.decreased += 1
            return None
        # In a namespace of its own, a Pod reaches only itself by loopback.
        is_inner = self._only_pod is not None and _is_loopback(known.remote.address)
        if not (sent or received) or is_inner:
            return None
        return pod_telemetry.PodFlow(known.pod, known.local, known.remote, sent, received)

    def _ends(self, found: inet_diag.Socket) -> tuple[pod_telemetry.Endpoint, pod_telemetry.Endpoint]:
        """Return both ends, of which the client's has no port."""
        if self._listener(found.local) is None:
            return found.local._replace(port=pod_telemetry.ANY_PORT), found.remote
        return found.local, found.remote._replace(port=pod_telemetry.ANY_PORT)

    def _listener(self, local: pod_telemetry.Endpoint) -> _Place | None:
        exact = self._listeners.get(local)
        if exact is not None:
            return exact
        anywhere = (self._listeners.get(local._replace(address=address)) for address in _WILDCARDS)
        return next((each for each in anywhere if each is not None), None)

    def _learn_addresses(self) -> None:
        """Take in which Pod has a loopback address for itself; the common ones are of all processes."""
        if self._only_pod is not None:
            return
        places = [
            (each.local.address, each.pod)
            for cookie in self._on_addresses
            if (each := self._followed[cookie]).seen == self._polls
        ]
        places += [
            (local.address, each.pod)
            for local, each in self._listeners.items()
            if each.seen == self._polls and _is_loopback(local.address) and local.address not in _COMMON_LOOPBACK
        ]
        now: dict[str, str | None] = {}
        for address, pod in places:
            now[address] = pod if now.get(address, pod) == pod else None
        self._addresses |= {address: _Place(pod, self._polls) for address, pod in now.items()}

    def _owner_of(self, found: inet_diag.Socket) -> str | None:
        return self._owner(found) if self._only_pod is None else self._only_pod

    def _forget(self) -> None:
        if self._polls % POLLS_KEPT == 0:
            last = self._polls - POLLS_KEPT
            self._followed = {cookie: each for cookie, each in self._followed.items() if each.seen >= last}
        self._on_addresses &= self._followed.keys()
        last = self._polls - PLACES_KEPT
        self._listeners = {local: each for local, each in self._listeners.items() if each.seen >= last}
        self._addresses = {address: each for address, each in self._addresses.items() if each.seen >= last}


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
