"""Bytes of real TCP sockets on loopback, against what the two processes counted themselves."""

import asyncio
import errno
import pathlib
import socket
from collections.abc import Callable, Iterator

import pytest

from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.traffic import diagnostics, inet_diag, owners, sockets
from carico_core.domain import pod_telemetry
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from tests.tools import waiting
from tests.tools.sites import talking_pods
from tests.tools.sites.talking_pods import ANSWER, CLIENT, REQUEST, SERVER
from tests.unit.agent.traffic import kernel_messages as kernel


class Site:
    """A node with two Pods, and the source of their traffic."""

    def __init__(self, folder: pathlib.Path, server: talking_pods.Server, client: talking_pods.Client) -> None:
        self.server, self.client = server, client
        self.skipped: dict[str, int] = {}
        group = hierarchy.Group(layout=hierarchy.Layout.V1, v1={"cpuacct": folder}, unified=None)
        self.source = sockets.Sockets(
            owners.Owners(group, proc=pathlib.Path("/proc")), proc=pathlib.Path("/proc"), skipped=self._skip,
            log=logs.RateLimited(logs.get("test"), clock=clocks.FakeClock()),
        )  # fmt: skip
        # (Pod, whether it is the server's end) -> bytes sent and received.
        self.totals: dict[tuple[str | None, bool], list[int]] = {}

    def _skip(self, reason: str, count: int) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + count

    def poll(self) -> None:
        """Add up the flows between the two; the machine has others."""
        for flow in self.source.poll():
            if self.server.port in (flow.local.port, flow.remote.port):
                total = self.totals.setdefault((flow.pod, flow.local.port == self.server.port), [0, 0])
                total[0] += flow.sent_bytes
                total[1] += flow.received_bytes

    def has_all(self, requests: int) -> bool:
        """Poll, and return whether both ends have the bytes of all requests."""
        self.poll()
        sent, answered = requests * REQUEST, requests * ANSWER
        return self.totals == {(SERVER, True): [answered, sent], (CLIENT, False): [sent, answered]}


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    try:
        diagnostics.Diagnostics().close()
    except OSError as error:
        pytest.skip(f"this kernel does not list sockets: {error}")
    with talking_pods.talking(tmp_path) as (server, client):
        made = Site(tmp_path, server, client)
        yield made
        made.source.close()


def until(condition: Callable[[], bool], site: Site) -> None:
    waiting.until_now(condition, what=lambda: f"got {site.totals}, skipped {site.skipped}")


def test_connections_that_stay_are_counted_to_the_byte(site: Site) -> None:
    site.poll()
    site.client.ask("+20")
    for _ in range(3):
        site.poll()
        requests = site.client.ask("q5")
    assert requests == 300
    until(lambda: site.has_all(300), site)
    assert site.skipped == {}


def test_connections_shorter_than_a_poll_are_counted_to_the_byte(site: Site) -> None:
    site.poll()
    site.client.ask("+1")
    site.poll()
    requests = site.client.ask("c60")
    until(lambda: site.has_all(requests), site)
    site.poll()
    site.client.ask("c60")
    requests = site.client.ask("q1")
    until(lambda: site.has_all(requests), site)
    assert site.skipped == {}


def test_events_that_the_kernel_has_no_room_for_are_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "_EVENTS_BYTES", 1)
    site.poll()
    site.client.ask("c60")

    def is_lost() -> bool:
        site.poll()
        return site.skipped.get("events_lost", 0) > 0

    until(is_lost, site)
    requests = site.client.ask("c1")
    assert requests == 61, "the rest goes on"
    assert isinstance(site.source.poll(), list)


def test_a_namespace_that_cannot_be_read_is_counted_and_the_rest_is_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespaces = {str(site.client.process.pid): 4711}
    read = owners.namespace_of
    monkeypatch.setattr(owners, "namespace_of", lambda process: namespaces.get(process.name, read(process)))

    def refused(_: pathlib.Path) -> diagnostics.Diagnostics:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(diagnostics, "open_in", refused)
    site.poll()
    site.poll()
    assert site.skipped == {"unreadable": 1}
    assert isinstance(site.source.poll(), list)


class Namespace:
    """The diagnostics of a Pod's own namespace, with what the test says."""

    def __init__(self) -> None:
        self.ends = socket.socketpair()
        self.dumps = 0
        self.last: list[inet_diag.Socket] = []
        self.is_closed = False
        self.waiting = 0
        self.failure: OSError | None = None
        self.dumped: list[inet_diag.Socket] = []

    def fileno(self) -> int:
        return self.ends[0].fileno()

    def dump(self) -> list[inet_diag.Socket]:
        self.dumps += 1
        if self.failure is not None:
            raise self.failure
        return self.dumped

    def drain(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.ends[0].recv(1)

    def ended(self) -> diagnostics.Ended:
        ended, self.last = self.last, []
        return diagnostics.Ended(ended, 0)

    def close(self) -> None:
        self.is_closed = True
        for each in self.ends:
            each.close()


@pytest.fixture
def own(site: Site, monkeypatch: pytest.MonkeyPatch) -> Namespace:
    """The client's Pod has a namespace of its own."""
    read, made = owners.namespace_of, Namespace()
    numbers = {str(site.client.process.pid): 4711}
    monkeypatch.setattr(owners, "namespace_of", lambda process: numbers.get(process.name, read(process)))
    monkeypatch.setattr(diagnostics, "open_in", lambda _: made)
    return made


def test_a_namespace_of_one_pod_is_dumped_as_often_as_traffic_is_reported(site: Site, own: Namespace) -> None:
    for _ in range(1 + 2 * sockets.OWN_EVERY):
        site.source.poll()
    assert own.dumps == 3
    own.ends[1].send(b"x")
    site.source._drain()
    assert site.source._events.poll(0) == [], "what has events is read between two polls"
    assert site.skipped == {}


def test_a_namespace_with_many_events_is_read_at_the_next_poll(site: Site, own: Namespace) -> None:
    site.source.poll()
    own.waiting = sockets.EVENTS_DUE
    site.source.poll()
    site.source.poll()
    assert own.dumps == 3


def test_events_between_two_polls_are_bounded_and_no_error_repeats_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "EVENTS_MOST", 5)
    found = diagnostics.Diagnostics()
    events: Iterator[bytes | OSError] = iter([b"", OSError(errno.ENOBUFS, "lost"), *[b""] * 20])

    class Events:
        def recv(self, _: int) -> bytes:
            event = next(events)
            if isinstance(event, OSError):
                raise event
            return event

        def close(self) -> None:
            pass

    found._events.close()
    found._events = Events()  # type: ignore[assignment]
    found.drain()
    assert (found.waiting, found._lost) == (5, 1)
    found.ended()
    events = iter([OSError(errno.EBADF, "closed")])
    with pytest.raises(OSError, match="closed"):
        found.drain()
    found.close()


def test_a_namespace_whose_events_cannot_be_read_stops_nothing(site: Site, own: Namespace) -> None:
    site.source.poll()
    own.failure = OSError(9, "Bad file descriptor")
    own.ends[1].send(b"x")
    site.source._drain()
    assert site.skipped == {"unreadable": 1}
    site.source.poll()
    assert own.is_closed, "and opened again at the next poll"


def test_a_namespace_that_is_opened_again_does_not_count_what_was_counted(
    site: Site, own: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = Namespace()
    again.dumped = [kernel.tcp(7, ("10.0.0.2", 40_000), ("10.0.0.1", 80), sent=10**9)]
    site.source.poll()
    own.failure = TimeoutError("timed out")
    site.source._gone.add(4711)
    monkeypatch.setattr(diagnostics, "open_in", lambda _: again)
    site.source.poll()
    assert own.is_closed
    assert [each for each in site.source.poll() if each.pod == CLIENT] == []
    assert again.dumps == 1
    assert 4711 in site.source._namespaces


def test_a_namespace_is_not_opened_by_a_process_that_has_ended(
    site: Site, own: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may be another's by then, whose traffic would be taken for the Pod's."""
    site.source.poll()
    site.source._gone.add(4711)
    site.source.poll()
    assert own.is_closed and 4711 not in site.source._namespaces
    opened: list[pathlib.Path] = []

    def open_in(path: pathlib.Path) -> Namespace:
        opened.append(path)
        return Namespace()

    monkeypatch.setattr(diagnostics, "open_in", open_in)
    group = pathlib.Path(site.source._owners._root or "") / f"pod{CLIENT}"
    (group / "cgroup.procs").write_text("")
    site.source.poll()
    assert opened == []


def test_the_last_bytes_of_a_pod_that_ends_count(site: Site, own: Namespace, tmp_path: pathlib.Path) -> None:
    site.source.poll()
    site.source.poll()
    own.last = [kernel.end(7, ("10.0.0.2", 40_000), ("10.0.0.1", 80), sent=101, received=5)]
    (tmp_path / f"pod{CLIENT}" / "cgroup.procs").unlink()
    (tmp_path / f"pod{CLIENT}").rmdir()
    found = [each for each in site.source.poll() if each.pod == CLIENT]
    assert found == [kernel.flow(CLIENT, ("10.0.0.2", 0), ("10.0.0.1", 80), 100, 5)]
    assert own.is_closed and 4711 not in site.source._namespaces


def flows_of(found: list[pod_telemetry.PodFlow], port: int) -> list[pod_telemetry.PodFlow]:
    return [each for each in found if port in (each.local.port, each.remote.port)]


async def test_a_poll_that_fails_stops_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([ValueError("a surprise")])
    poll = site.source.poll

    def fail_once() -> list[pod_telemetry.PodFlow]:
        for error in answers:
            raise error
        return poll()

    monkeypatch.setattr(site.source, "poll", fail_once)
    monkeypatch.setattr(site.source, "_poll_s", 0.01)
    got: list[object] = []
    task = asyncio.create_task(site.source.run(got.append))
    await waiting.until(lambda: got)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert site.skipped == {"unreadable": 1}


async def test_the_adapter_passes_on_each_poll_and_closes_its_sockets(site: Site) -> None:
    got: list[pod_telemetry.PodFlow] = []
    source = sockets.Sockets(
        site.source._owners, proc=pathlib.Path("/proc"), skipped=site._skip, poll_s=0.02,
        log=logs.RateLimited(logs.get("test"), clock=clocks.FakeClock()),
    )  # fmt: skip
    task = asyncio.create_task(source.run(got.extend))
    await waiting.until(lambda: source._namespaces)
    await asyncio.to_thread(site.client.ask, "+1")
    await asyncio.to_thread(site.client.ask, "q10")
    await waiting.until(
        lambda: sum(each.received_bytes for each in flows_of(got, site.server.port)) == 10 * (REQUEST + ANSWER)
    )
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not source._namespaces
