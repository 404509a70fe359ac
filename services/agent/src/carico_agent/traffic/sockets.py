"""Traffic from the kernel's TCP sockets: one dump a poll, and events of the sockets that ended between two dumps.

Pods of emulated nodes and of the host's network share a namespace with other processes; every other Pod has one of its
own, which is entered once. There, the Pod of every socket is known without a dump, so that dumps are rarer: each goes
through the connections of all namespaces in the kernel. What cannot be read is counted and logged, and read at a later
poll if it can be then.

UDP has no such counters. A connection of a shared namespace that is shorter than a poll is counted at its server's end,
and at its client's only if the client has a loopback address for itself.
"""

import asyncio
import collections
import pathlib
import select
import threading
from collections.abc import Callable, Mapping, Sequence

from carico_agent.traffic import connections, diagnostics, owners
from carico_core.domain import pod_telemetry
from carico_core.runtime.observe import logs

POLL_S = 1.0
# Times in a poll that events are taken from the kernel.
DRAINS = 10
# Polls from one dump of a Pod's own namespace to the next: as often as traffic is reported.
OWN_EVERY = 10
# Events of a namespace after which it is listed at the next poll: those of a second fit into what is kept.
EVENTS_DUE = diagnostics.EVENTS_MOST // 4
# Polls after which the namespaces of known Pods are looked up again: a Pod whose sandbox is replaced gets another one.
LOOK_AGAIN = 30

Skipped = Callable[[str, int], None]
Found = Callable[[Sequence[pod_telemetry.PodFlow]], None]


class _Namespace:
    """The sockets of one network namespace."""

    def __init__(
        self, opened: diagnostics.Diagnostics, followed: connections.Connections, *, is_shared: bool
    ) -> None:  # fmt: skip
        self.diagnostics = opened
        self.followed = followed
        self.is_shared = is_shared
        self.polls = 0

    def is_due(self, number: int) -> bool:
        """Return whether a dump is due; those of different namespaces are spread over the polls."""
        self.polls += 1
        is_turn = self.is_shared or self.polls == 1 or (self.polls + number) % OWN_EVERY == 0
        return is_turn or self.diagnostics.waiting >= EVENTS_DUE


class Sockets:
    """Implements `carico_agent.ports.TrafficSource`."""

    def __init__(
        self, of_pods: owners.Owners, *, proc: pathlib.Path, skipped: Skipped, log: logs.RateLimited,
        poll_s: float = POLL_S,
    ) -> None:  # fmt: skip
        """`skipped` counts what was left out, by reason."""
        self._owners = of_pods
        self._proc = proc
        self._skipped = skipped
        self._log = log
        self._poll_s = poll_s
        self._own = owners.namespace_of(pathlib.Path("/proc/self"))
        self._namespaces: dict[int, _Namespace] = {}
        # Knows which namespaces have events, so that only those are read.
        self._events = select.epoll()
        self._members: list[owners.Member] = []
        self._polls = 0
        # Namespaces whose Pods have ended, or that could not be read.
        self._gone: set[int] = set()
        # Namespaces that could not be entered, which is tried again when all Pods are looked up again.
        self._refused: set[int] = set()
        # Namespaces of Pods at the last poll. One that is opened again has connections that were counted before.
        self._numbers: frozenset[int] = frozenset()
        # Polls run in a thread, and sockets must not be closed meanwhile.
        self._busy = threading.Lock()

    async def run(self, found: Found) -> None:
        """Pass on what is transferred, once in a poll, until cancelled."""
        try:
            while True:
                try:
                    found(await asyncio.to_thread(self.poll))
                except Exception as error:
                    # Whatever the kernel answers: traffic is optional, and must not stop the agent.
                    self._skipped("unreadable", 1)
                    self._log.warning("poll", "a poll of traffic failed", why=f"{type(error).__name__}: {error}")
                for _ in range(DRAINS):
                    await asyncio.sleep(self._poll_s / DRAINS)
                    self._drain()
        finally:
            self.close()

    def close(self) -> None:
        """Close the netlink sockets."""
        with self._busy:
            for number in list(self._namespaces):
                self._namespaces.pop(number).diagnostics.close()
            self._events.close()

    def poll(self) -> list[pod_telemetry.PodFlow]:
        """Return what has been transferred since the last poll."""
        with self._busy:
            try:
                self._follow_namespaces()
            except OSError as error:  # too many open files: those that are open
                self._cannot("Pods", error)
            flows = []
            for number, each in list(self._namespaces.items()):
                try:
                    if each.is_due(number) or number in self._gone:
                        flows += self._read(each)
                except OSError as error:
                    self._cannot(f"network namespace {number}", error)
                    self._gone.add(number)
            # Closed after a last read, which has the last bytes of their Pods.
            for number in self._gone & self._namespaces.keys():
                self._close(number)
            self._gone.clear()
            return flows

    def _drain(self) -> None:
        numbers = {each.diagnostics.fileno(): number for number, each in self._namespaces.items()}
        for file, _ in self._events.poll(0):
            number = numbers.get(file)
            if number is None:
                continue
            try:
                self._namespaces[number].diagnostics.drain()
            except OSError as error:
                self._cannot(f"network namespace {number}", error)
                self._gone.add(number)

    def _add(self, number: int, found: _Namespace) -> None:
        self._events.register(found.diagnostics.fileno(), select.EPOLLIN)
        self._namespaces[number] = found

    def _close(self, number: int) -> None:
        found = self._namespaces.pop(number).diagnostics
        self._events.unregister(found.fileno())
        found.close()

    def _read(self, found: _Namespace) -> list[pod_telemetry.PodFlow]:
        dumped = found.diagnostics.dump()
        ended, lost = found.diagnostics.ended()
        if lost:
            self._skipped("events_lost", lost)
        self._owners.look_up(found.followed.unknown(dumped))
        before = found.followed.decreased
        flows = found.followed.take(dumped, ended)
        if found.followed.decreased > before:
            self._skipped("decreased", found.followed.decreased - before)
        return flows

    def _follow_namespaces(self) -> None:
        """Open the namespaces of new Pods, and close those of Pods that are gone."""
        # Whose namespace is not followed is looked up again: its process may have ended, and another have its number.
        followed = self._namespaces.keys() | self._refused
        known = {each.uid: each for each in self._members if each.namespace in followed}
        if self._polls % LOOK_AGAIN == 0:
            known, self._refused = {}, set()
        self._polls += 1
        self._members, unread = self._owners.members(known)
        if unread:
            self._cannot("processes of Pods", PermissionError(1, "no process of theirs is visible here"), unread)
        pods: dict[int, list[owners.Member]] = collections.defaultdict(list)
        for member in self._members:
            pods[member.namespace].append(member)
        self._gone |= self._namespaces.keys() - pods.keys() - {self._own}
        self._open(pods)

    def _open(self, pods: Mapping[int, Sequence[owners.Member]]) -> None:
        host = owners.namespace_of(self._proc / "1")
        if self._own is not None and self._own not in self._namespaces:
            # From the start, so that the connections of a Pod that comes later count from their beginning.
            followed = connections.Connections(self._owners.of)
            self._add(self._own, _Namespace(diagnostics.Diagnostics(), followed, is_shared=True))
        for number, members in pods.items():
            if number in self._namespaces or number in self._refused:
                continue
            try:
                path = self._proc / str(members[0].pid) / "ns" / "net"
                opened = diagnostics.Diagnostics() if number == self._own else diagnostics.open_in(path)
            except OSError as error:
                self._refused.add(number)
                self._cannot(f"network namespace of Pod {members[0].uid}", error)
                continue
            is_shared = number in (self._own, host) or len(members) > 1
            followed = connections.Connections(
                self._owners.of,
                only_pod=None if is_shared else members[0].uid,
                is_new=not is_shared and self._polls > 1 and number not in self._numbers,
            )
            self._add(number, _Namespace(opened, followed, is_shared=is_shared))
        self._numbers = frozenset(pods)

    def _cannot(self, what: str, error: OSError, count: int = 1) -> None:
        self._skipped("unreadable", count)
        self._log.warning(
            ("unreadable", type(error)), "traffic is not measured completely: sockets cannot be read", what=what,
            why=error.strerror or str(error),
            needs="the host's PID namespace, CAP_SYS_ADMIN and CAP_SYS_PTRACE for Pods' sockets",
        )  # fmt: skip
