"""Who is disconnected for what it sends, and for how long an agent stays out."""

import pytest

from carico_auth import connections, floods, policy
from carico_core.runtime.process import clock as clocks
from carico_core.wire import accounts, roles

AGENTS, READERS = accounts.Account.AGENTS, accounts.Account.READERS
LOOK_S = connections.EVERY_S
# What a sender may send between two looks.
MOST = int(floods.MOST_MESSAGES_S * LOOK_S)


def sent(
    client: int, messages: int, *, identity: str = "agent/n1", size_bytes: int = 0, age_s: float = 100.0,
    address: str = "10.0.0.1", is_open: bool = True,
) -> connections.Connection:  # fmt: skip
    who = policy.Client(identity=identity, namespace="carico", uid="u1")
    return connections.Connection(
        server_id="N", client_id=client, client=who, address=address, age_s=age_s, messages=messages,
        size_bytes=size_bytes, is_open=is_open,
    )  # fmt: skip


def grant(name: str) -> policy.Grant:
    return policy.Grant(
        name=name, role=roles.Role.AGENT, account=policy.ServiceAccount("carico", "carico-agent"), node="n1",
        pod_uid="u1", permissions=roles.permissions(roles.Role.AGENT, "n1"), expires_s=0,
    )  # fmt: skip


def numbers(found: object) -> list[int]:
    return [each.client_id for each in found]  # type: ignore[attr-defined]


def test_an_agent_that_floods_is_named_and_stays_out_for_a_while() -> None:
    clock = clocks.FakeClock()
    made = floods.Floods(clock=clock)
    old = 10 * MOST
    assert numbers(made.flooding(AGENTS, [sent(1, old, age_s=1e6), sent(2, 5, identity="agent/n2")])) == []
    again = [sent(1, old + MOST + 1, age_s=1e6 + LOOK_S), sent(2, 5 + MOST, identity="agent/n2", age_s=100.0 + LOOK_S)]
    assert numbers(made.flooding(AGENTS, again)) == [1]
    refusal = made.refuse(grant("agent/n1"))
    assert refusal is not None and refusal.reason is policy.Refused.FLOOD
    assert made.refuse(grant("agent/n2")) is None
    clock.advance(floods.REFUSED_S)
    assert made.refuse(grant("agent/n1")) is None


def test_bytes_count_too() -> None:
    made = floods.Floods(clock=clocks.FakeClock())
    most = int(floods.MOST_BYTES_S * LOOK_S)
    list(made.flooding(AGENTS, [sent(1, 1), sent(2, 1, identity="agent/n2")]))
    again = [
        sent(1, 9, size_bytes=most + 1, age_s=100.0 + LOOK_S),
        sent(2, 9, size_bytes=most, identity="agent/n2", age_s=100.0 + LOOK_S),
    ]
    assert numbers(made.flooding(AGENTS, again)) == [1]


def test_all_connections_of_an_agent_count_together_and_end() -> None:
    made = floods.Floods(clock=clocks.FakeClock())
    part = MOST // 2 + 1
    found = [sent(1, part, age_s=LOOK_S), sent(2, part, age_s=LOOK_S), sent(3, 1, identity="agent/n2", age_s=LOOK_S)]
    assert numbers(made.flooding(AGENTS, found)) == [1, 2]


def test_readers_share_an_identity_and_count_alone() -> None:
    made = floods.Floods(clock=clocks.FakeClock())
    readers = {"identity": "reader/carico/carico-web", "age_s": LOOK_S}
    found = [sent(1, MOST + 1, **readers), *(sent(number, MOST // 2, **readers) for number in (2, 3, 4))]  # type: ignore[arg-type]
    assert numbers(made.flooding(READERS, found)) == [1]
    assert made.refuse(grant("reader/carico/carico-web")) is None, "the others of that name may come"


@pytest.mark.parametrize("age_s", [0.0, 0.01, 0.5])
def test_what_comes_right_after_a_connection_is_no_flood(age_s: float) -> None:
    made = floods.Floods(clock=clocks.FakeClock())
    assert numbers(made.flooding(AGENTS, [sent(1, int(floods.MOST_MESSAGES_S), age_s=age_s)])) == []


def test_services_may_send_as_much_as_they_need() -> None:
    made = floods.Floods(clock=clocks.FakeClock())
    assert numbers(made.flooding(accounts.Account.CORE, [sent(1, 100 * MOST, age_s=1.0)])) == []


def test_agents_that_share_a_static_key_count_together_by_their_addresses() -> None:
    made = floods.Floods(clock=clocks.FakeClock())

    def look(messages: int, age_s: float) -> list[int]:
        found = [
            sent(client, messages, identity="UABC", age_s=age_s, address=f"10.0.0.{client // 10}")
            for client in (10, 11, 20)
        ]
        return numbers(made.flooding(AGENTS, found))

    assert look(0, 100.0) == []
    assert look(MOST // 2 + 1, 100.0 + LOOK_S) == [10, 11]


@pytest.mark.parametrize("identity", ["agent/n1", "UABC"])
def test_who_ends_its_connections_between_two_looks_floods_by_all_of_them(identity: str) -> None:
    made = floods.Floods(clock=clocks.FakeClock())
    # Long ago, before the first look.
    old = [sent(number, 19_900, identity=identity, age_s=0.5, is_open=False) for number in range(9)]
    assert numbers(made.flooding(AGENTS, old)) == []
    assert made.refuse(grant(identity)) is None
    ended = [sent(10 + number, 19_900, identity=identity, age_s=0.5, is_open=False) for number in range(5)]
    again = sent(20, 1, identity=identity, age_s=0.1)
    other = sent(21, 1, identity="agent/n2", address="10.0.0.2")
    assert numbers(made.flooding(AGENTS, [*old, *ended, again, other])) == [20]
    assert made.refuse(grant(identity)) is not None
    # What has ended counts once.
    assert numbers(made.flooding(AGENTS, [*old, *ended, again, other])) == []


def test_a_reader_that_floods_by_one_connection_after_another_loses_the_next_ones_and_no_other_reader() -> None:
    made = floods.Floods(clock=clocks.FakeClock())
    readers = {"identity": "reader/carico/carico-web"}
    page = sent(1, 10, **readers)  # type: ignore[arg-type]  # of several types
    assert numbers(made.flooding(READERS, [page])) == []
    ended = [sent(10 + number, 19_900, age_s=0.5, is_open=False, **readers) for number in range(5)]  # type: ignore[arg-type]
    again = sent(20, 1, age_s=0.1, **readers)  # type: ignore[arg-type]
    elsewhere = sent(21, 1, age_s=0.1, address="10.0.0.2", **readers)  # type: ignore[arg-type]
    assert numbers(made.flooding(READERS, [page, *ended, again, elsewhere])) == [20]


def test_after_a_look_without_an_answer_what_ended_long_ago_is_no_flood() -> None:
    made = floods.Floods(clock=clocks.FakeClock())
    # As of a script that asks once a minute; a server remembers them for days.
    ended = [sent(10 + number, 9, identity="reader/a", age_s=0.5, is_open=False) for number in range(9000)]
    page = sent(1, 10, identity="reader/a")
    for found in ([], [*ended, page], [], [*ended, page], [*ended, page]):
        assert numbers(made.flooding(READERS, found)) == []
