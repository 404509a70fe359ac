"""From sockets, poll after poll, to the bytes of each pair of endpoints."""

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_agent.traffic import connections, inet_diag
from carico_core.domain import pod_telemetry
from tests.unit.agent.traffic import kernel_messages as kernel
from tests.unit.agent.traffic.kernel_messages import end, flow, tcp

SERVER, CLIENT = ("10.0.0.1", 8080), ("10.0.0.2", 40_000)
LISTENER = tcp(1, ("0.0.0.0", 8080), listening=True)
ANY = pod_telemetry.ANY_PORT


def served(sent: int, received: int, cookie: int = 10) -> inet_diag.Socket:
    return tcp(cookie, SERVER, CLIENT, sent=sent, received=received)


def only(pod: str | None = "a", *, is_new: bool = True) -> connections.Connections:
    """A namespace that one Pod has for itself."""
    return connections.Connections(lambda _: None, only_pod=pod, is_new=is_new)


def shared(owners: dict[int, str]) -> connections.Connections:
    """A namespace of several Pods, with the owners of its sockets by inode."""
    found = connections.Connections(lambda each: owners.get(each.inode))
    found.take([], [])
    return found


def test_each_poll_has_what_was_transferred_since_the_last() -> None:
    found = only()
    assert found.take([LISTENER, served(100, 7)], []) == [flow("a", SERVER, ("10.0.0.2", ANY), 100, 7)]
    assert found.take([LISTENER, served(150, 7)], []) == [flow("a", SERVER, ("10.0.0.2", ANY), 50, 0)]
    assert found.take([LISTENER, served(150, 7)], []) == []
    assert found.take([LISTENER], [end(10, SERVER, CLIENT, sent=160, received=9)]) == [
        flow("a", SERVER, ("10.0.0.2", ANY), 10, 2)
    ]


def test_a_clients_end_has_no_port_and_its_syn_does_not_count() -> None:
    found = only()
    assert found.take([tcp(3, CLIENT, SERVER, sent=101, received=5)], []) == [
        flow("a", ("10.0.0.2", ANY), SERVER, 100, 5)
    ]
    assert found.take([], [end(4, ("10.0.0.2", 40_001), SERVER, sent=31, received=6)]) == [
        flow("a", ("10.0.0.2", ANY), SERVER, 30, 6)
    ]


def test_what_was_transferred_before_the_first_poll_does_not_count() -> None:
    found = only(is_new=False)
    assert found.take([LISTENER, served(100, 7)], [end(99, SERVER, CLIENT, sent=5, received=5)]) == []
    assert found.take([LISTENER, served(101, 7)], []) == [flow("a", SERVER, ("10.0.0.2", ANY), 1, 0)]


def test_a_connection_between_two_polls_belongs_to_the_server_that_listens() -> None:
    found = shared({1: "a"})
    found.take([LISTENER], [])
    short = end(11, SERVER, CLIENT, sent=10, received=20)
    assert found.take([LISTENER], [short]) == [flow("a", SERVER, ("10.0.0.2", ANY), 10, 20)]
    # The server has stopped listening.
    assert found.take([], [short._replace(cookie=12)]) == [flow("a", SERVER, ("10.0.0.2", ANY), 10, 20)]


@pytest.mark.parametrize("inode", [0, 11], ids=["without a process", "closed before its process was read"])
def test_a_connection_that_ends_while_a_poll_looks_for_its_process_belongs_to_the_server_that_listens(
    inode: int,
) -> None:
    found = shared({1: "a"})
    found.take([LISTENER], [])
    assert found.take([LISTENER, served(6, 9, cookie=11)._replace(inode=inode)], []) == []
    short = end(11, SERVER, CLIENT, sent=10, received=20)
    assert found.take([LISTENER], [short]) == [flow("a", SERVER, ("10.0.0.2", ANY), 10, 20)]


def test_a_socket_of_no_pod_that_was_looked_for_stays_of_none() -> None:
    found = shared({1: "a"})
    for _ in range(connections.LOOKUPS_MOST):
        found.take([LISTENER, served(6, 9, cookie=11)], [])
    assert found.take([LISTENER], [end(11, SERVER, CLIENT, sent=10, received=20)]) == []


def test_a_connection_between_two_polls_of_a_shared_address_has_no_client() -> None:
    found = shared({})
    assert found.take([], [end(11, ("127.0.0.1", 40_000), ("127.0.0.1", 8080), sent=10, received=20)]) == []


def test_a_loopback_address_that_one_pod_has_for_itself_identifies_its_short_connections() -> None:
    found = shared({20: "a", 21: "a", 22: "b"})
    own = tcp(20, ("127.3.1.5", 40_000), ("127.3.2.1", 80), sent=1)
    short = end(30, ("127.3.1.5", 40_002), ("127.3.2.1", 80), sent=31, received=6)
    expected = [flow("a", ("127.3.1.5", ANY), ("127.3.2.1", 80), 30, 6)]
    assert found.take([own], [short]) == expected
    assert found.take([], [short._replace(cookie=31)]) == expected, "it is remembered"
    both = [own, tcp(22, ("127.3.1.5", 40_001), ("127.3.2.1", 80), sent=1)]
    assert found.take(both, [short._replace(cookie=32)]) == [], "two Pods have it now"


def test_bytes_wait_until_the_pod_of_a_socket_is_known() -> None:
    owners: dict[int, str] = {}
    found = shared(owners)
    not_accepted = served(0, 50)._replace(inode=0)
    for _ in range(connections.LOOKUPS_MOST + 1):
        assert found.take([LISTENER, not_accepted], []) == []
    owners[10] = "a"
    assert found.take([LISTENER, served(0, 60)], []) == [flow("a", SERVER, ("10.0.0.2", ANY), 0, 60)]


def test_owners_are_looked_up_for_new_sockets_and_not_for_ever() -> None:
    found = shared({1: "a"})
    foreign = tcp(12, ("10.0.0.9", 1), ("10.0.0.8", 2))
    assert found.unknown([LISTENER, foreign]) == [LISTENER, foreign]
    found.take([LISTENER, foreign], [])
    assert found.unknown([LISTENER, foreign]) == [foreign]
    for _ in range(connections.LOOKUPS_MOST):
        found.take([LISTENER, foreign], [])
    assert found.unknown([LISTENER, foreign, tcp(13, SERVER, CLIENT, inode=0)]) == []
    assert only().unknown([LISTENER, foreign]) == []


def test_a_counter_that_decreases_is_counted_and_gives_no_bytes() -> None:
    found = only()
    found.take([LISTENER, served(100, 7)], [])
    assert found.take([LISTENER, served(50, 8)], []) == []
    assert found.decreased == 1
    assert found.take([LISTENER, served(60, 8)], []) == [flow("a", SERVER, ("10.0.0.2", ANY), 10, 0)]


def test_a_late_event_counts_once_and_a_lost_one_leaves_nothing() -> None:
    found = only()
    found.take([LISTENER, served(100, 7)], [])
    found.take([LISTENER], [])
    assert found.take([LISTENER], [end(10, SERVER, CLIENT, sent=110, received=7)]) == [
        flow("a", SERVER, ("10.0.0.2", ANY), 10, 0)
    ]
    found.take([LISTENER, served(5, 5, cookie=44)], [])
    for _ in range(connections.PLACES_KEPT + 2):
        found.take([], [])
    assert not found._followed and not found._listeners


def test_loopback_in_a_namespace_of_its_own_is_within_the_pod() -> None:
    found = only()
    assert found.take([tcp(3, ("127.0.0.1", 5), ("127.0.0.1", 6), sent=101)], []) == []


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
def test_a_server_that_listens_anywhere_has_all_addresses(wildcard: str) -> None:
    found = only()
    listener = tcp(1, (wildcard, 8080), ("::" if wildcard == "::" else "0.0.0.0", 0), listening=True)
    assert found.take([listener, served(5, 5)], [])[0].local == SERVER


Steps = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=12)


@hypothesis.given(steps=Steps, polled=st.lists(st.booleans(), min_size=12, max_size=12), late=st.integers(0, 3))
@hypothesis.settings(max_examples=200, deadline=None)
def test_the_sum_is_what_was_transferred_whenever_it_is_polled(
    steps: list[tuple[int, int]], polled: list[bool], late: int
) -> None:
    found = only()
    sent = received = 0
    flows: list[pod_telemetry.PodFlow] = []
    for (more_sent, more_received), is_polled in zip(steps, polled, strict=False):
        sent, received = sent + more_sent, received + more_received
        if is_polled:
            flows += found.take([LISTENER, served(sent, received)], [])
    for _ in range(late):
        flows += found.take([LISTENER], [])
    flows += found.take([LISTENER], [kernel.end(10, SERVER, CLIENT, sent=sent, received=received)])
    assert (sum(each.sent_bytes for each in flows), sum(each.received_bytes for each in flows)) == (sent, received)
