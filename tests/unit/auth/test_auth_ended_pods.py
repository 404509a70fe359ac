"""Which clients are disconnected: those of Pods that the API has shown to be gone, and no other."""

import datetime
import json
from collections.abc import Callable
from typing import Any

import pytest

from carico_auth import connections, ended_pods, instruments, policy
from carico_core.domain import errors
from carico_core.runtime.kube import list_watch
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_core.wire import accounts, roles
from tests.tools.memory import memory_kube

SETTLED_S = ended_pods.SETTLE_S + 1.0
AGENTS = accounts.connections(accounts.Account.AGENTS)


class Servers:
    """Servers with their connections: they list them, and disconnect those that they are asked to."""

    def __init__(self, clock: clocks.FakeClock) -> None:
        self._clock = clock
        # server -> client -> (its name, when it connected)
        self.clients: dict[str, dict[int, tuple[str, float]]] = {"NABC": {}, "NXYZ": {}}
        self.kicked: list[int] = []
        self.answer = b'{"server":{}}'
        self.is_away = False
        self.silent: list[str] = []
        # Answers of further servers.
        self.broken: list[bytes] = []
        self.meanwhile: Callable[[], object] = lambda: None

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        server = subject.removeprefix("$SYS.REQ.SERVER.").removesuffix(".KICK")
        client = json.loads(payload)["cid"]
        self.kicked.append(client)
        self.meanwhile()
        if server in self.silent:
            raise errors.BusUnavailable(subject)
        del self.clients[server][client]
        return self.answer

    async def request_all(self, subject: str, payload: bytes, *, within_s: float) -> list[bytes]:
        if self.is_away:
            raise errors.BusUnavailable(subject)
        asked = json.loads(payload)
        assert asked["auth"] is True
        pages = [
            self._page(server, clients if subject == AGENTS else {}, asked["offset"], asked["limit"])
            for server, clients in self.clients.items()
        ]
        return [*self.broken, *pages]

    def _page(self, server: str, clients: dict[int, tuple[str, float]], offset: int, limit: int) -> bytes:
        listed = [
            {"cid": client, "authorized_user": name, "start": shown(since_s), "in_msgs": 1, "in_bytes": 10}
            for client, (name, since_s) in sorted(clients.items())[offset : offset + limit]
        ]
        data = {
            "now": shown(self._clock.monotonic_s()), "offset": offset, "limit": limit, "total": len(clients),
            "connections": listed,
        }  # fmt: skip
        return json.dumps({"server": {"id": server}, "data": data}).encode()


def shown(at_s: float) -> str:
    """A time as servers write it, in nanoseconds."""
    at = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC) + datetime.timedelta(seconds=at_s)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06d}789Z"


class Made:
    """The part under test, with two connections of Pod `u1` and one of `u2`."""

    def __init__(self) -> None:
        self.clock = clocks.FakeClock()
        self.servers = Servers(self.clock)
        self.metrics = metrics.Metrics("auth")
        self.ended = ended_pods.EndedPods(memory_kube.MemoryKube(), namespaces={"carico"}, clock=self.clock)
        self.connections = connections.Connections(
            instruments.Instruments(self.metrics, clock=self.clock), clock=self.clock,
            rules={connections.Fault.POD_GONE: self.ended.ended},
        )  # fmt: skip
        self.connections.bus = self.servers
        self.show("u1", "u2")
        for number, uid in enumerate(("u1", "u1", "u2")):
            self.let_in(number, uid)

    def let_in(self, number: int, uid: str | None, *, server: str = "NABC", namespace: str = "carico") -> None:
        grant = policy.Grant(
            name="agent/n1", role=roles.Role.AGENT, account=policy.ServiceAccount(namespace, "carico-agent"), node="n1",
            pod_uid=uid, permissions=roles.permissions(roles.Role.AGENT, "n1"), expires_s=0,
        )  # fmt: skip
        self.servers.clients[server][number] = (grant.bus_name, self.clock.monotonic_s())

    def show(self, *uids: str) -> None:
        self.ended.take("carico", list_watch.Listed(objects=list(uids), resource_version="1"))

    def delete(self, uid: str) -> None:
        self.ended.take("carico", list_watch.Changed(type="DELETED", object={"metadata": {"uid": uid}}))

    async def sweep(self, *, is_fresh: bool = True) -> list[int]:
        """Return the clients that the servers were asked to disconnect. `is_fresh`: the watch works."""
        if is_fresh:
            self.ended.freshness["carico"].note()
        self.servers.kicked.clear()
        await self.connections.sweep()
        return list(self.servers.kicked)

    def disconnected(self) -> float | None:
        return self.metrics.registry.get_sample_value("carico_auth_disconnected_total", {"reason": "pod_gone"})


async def test_the_clients_of_a_pod_that_is_gone_are_disconnected_once() -> None:
    made = Made()
    made.delete("u1")
    made.clock.advance(SETTLED_S)
    assert await made.sweep() == [0, 1]
    assert await made.sweep() == []
    assert made.disconnected() == 2.0


async def test_a_replica_that_has_just_started_disconnects_what_another_one_let_in() -> None:
    made = Made()
    made.clock.advance(SETTLED_S)
    started = ended_pods.EndedPods(memory_kube.MemoryKube(), namespaces={"carico"}, clock=made.clock)
    looking = connections.Connections(
        instruments.Instruments(metrics.Metrics("auth"), clock=made.clock), clock=made.clock,
        rules={connections.Fault.POD_GONE: started.ended},
    )  # fmt: skip
    looking.bus = made.servers
    await looking.sweep()
    assert made.servers.kicked == [], "it has no list of Pods yet"
    started.take("carico", list_watch.Listed(objects=["u1"], resource_version="1"))
    started.freshness["carico"].note()
    await looking.sweep()
    assert made.servers.kicked == [2]


async def test_connections_beyond_the_first_page_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PAGE", 2)
    made = Made()
    for number in range(3, 8):
        made.let_in(number, "u3" if number in (4, 7) else "u1")
    made.let_in(9, "u3", server="NXYZ")
    made.clock.advance(SETTLED_S)
    assert sorted(await made.sweep()) == [4, 7, 9]


async def test_a_server_that_reports_an_error_hides_no_connections_of_other_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "PAGE", 2)
    made = Made()
    made.delete("u2")
    made.clock.advance(SETTLED_S)
    made.servers.broken = [b'{"server":{"id":"NBAD"},"error":{"code":500,"description":"too busy"}}', b"no"]
    assert await made.sweep() == [2]


async def test_a_pod_that_is_missing_from_a_new_list_is_gone() -> None:
    made = Made()
    made.clock.advance(SETTLED_S)
    made.show("u1")
    assert await made.sweep() == [2]


async def test_a_pod_that_a_slow_watch_does_not_show_yet_keeps_its_connection() -> None:
    made = Made()
    made.clock.advance(SETTLED_S)
    made.let_in(9, "new")
    assert await made.sweep() == []
    made.ended.take("carico", list_watch.Changed(type="ADDED", object={"metadata": {"uid": "new"}}))
    made.clock.advance(SETTLED_S)
    assert await made.sweep() == []


async def test_a_watch_that_is_silent_ends_no_connection_of_a_new_pod() -> None:
    made = Made()
    assert await made.sweep() == []
    # The watched API server stops with its connections open, and another one reviews the tokens of new Pods.
    made.let_in(9, "new")
    made.clock.advance(20.0 * SETTLED_S)
    assert await made.sweep(is_fresh=False) == []
    made.show("u1", "u2", "new")
    assert await made.sweep() == []


async def test_a_server_that_does_not_answer_is_asked_once_in_a_sweep() -> None:
    made = Made()
    made.let_in(4, "u2", server="NXYZ")
    made.show()
    made.clock.advance(SETTLED_S)
    made.servers.silent = ["NABC"]
    assert await made.sweep() == [0, 4]
    made.servers.silent = []
    assert await made.sweep() == [0, 1, 2]


async def test_a_pod_that_shows_up_during_a_sweep_keeps_its_connection() -> None:
    made = Made()
    made.show()
    made.clock.advance(SETTLED_S)
    made.servers.meanwhile = lambda: made.show("u2")
    assert await made.sweep() == [0, 1]


async def test_while_pods_cannot_be_read_no_one_is_disconnected() -> None:
    made = Made()
    made.delete("u1")
    made.ended.take("carico", list_watch.Away(error=errors.ApiUnavailable("away")))
    made.clock.advance(SETTLED_S)
    assert await made.sweep() == []
    made.show("u2")
    assert await made.sweep() == [0, 1]


async def test_clients_without_a_pod_and_of_other_namespaces_are_left_alone() -> None:
    made = Made()
    made.let_in(7, None)
    made.let_in(8, "u3", namespace="other")
    made.servers.clients["NABC"][9] = ("UABCDEF", 0.0)
    made.clock.advance(SETTLED_S)
    assert await made.sweep() == []


async def test_what_no_server_answers_is_tried_again() -> None:
    made = Made()
    made.delete("u2")
    made.clock.advance(SETTLED_S)
    made.servers.is_away = True
    assert await made.sweep() == []
    made.servers.is_away = False
    assert await made.sweep() == [2]


@pytest.mark.parametrize("answer", [b'{"error":{"code":500,"description":"no such client"}}', b"[]", b"no"])
async def test_a_client_that_has_left_by_itself_is_not_counted(answer: bytes) -> None:
    made = Made()
    made.delete("u2")
    made.clock.advance(SETTLED_S)
    made.servers.answer = answer
    assert await made.sweep() == [2]
    assert await made.sweep() == []
    assert not made.disconnected()


def test_a_client_whose_token_belongs_to_no_pod_is_listed_too() -> None:
    """Its flood would not be seen: people get such tokens by `kubectl create token`."""
    servers = Servers(clocks.FakeClock())
    servers.clients["NABC"][1] = ("reader/carico/carico-reader", 0.0)
    page = servers._page("NABC", servers.clients["NABC"], 0, 10)
    (found,), _ = connections.parse_page(page)
    assert found.client == policy.Client(identity="reader/carico/carico-reader")


@pytest.mark.parametrize(
    "answer",
    [b"", b"no", b"[]", b"{}", {"server": {"id": "N"}, "data": {}}, {"server": {"id": "N"}, "error": {"code": 500}},
     {"server": {"id": "N"}, "data": {"now": "today", "connections": [], "offset": 0, "total": 0}}],
)  # fmt: skip
def test_an_answer_that_lists_no_connections_is_refused(answer: bytes | dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a list of connections"):
        connections.parse_page(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
