"""Which clients are disconnected: those of Pods that the API has shown to be gone, and no other."""

import dataclasses
import json
from collections.abc import Callable

import pytest

from carico_auth import ended_pods, instruments, nats_jwt, policy
from carico_core.domain import errors
from carico_core.runtime.kube import list_watch, memory_kube
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles
from tests.unit.auth import questions

KICK_OTHER = "$SYS.REQ.SERVER.NXYZ.KICK"
SETTLED_S = ended_pods.SETTLE_S + 1.0


class Servers:
    """Servers that answer what they are asked to do; `away`: they do not."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.answer = b'{"server":{}}'
        self.is_away = False
        self.silent: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        if self.is_away:
            raise errors.BusUnavailable(subject)
        self.asked.append((subject, json.loads(payload)["cid"]))
        self.meanwhile()
        if subject.split(".")[3] in self.silent:
            raise errors.BusUnavailable(subject)
        return self.answer


class Made:
    """The part under test, with two connections of Pod `u1` and one of `u2`."""

    def __init__(self) -> None:
        self.clock = clocks.FakeClock()
        self.servers = Servers()
        self.metrics = metrics.Metrics("auth")
        self.ended = ended_pods.EndedPods(
            memory_kube.MemoryKube(), lambda: self.servers, instruments.Instruments(self.metrics, clock=self.clock),
            namespaces={"carico"}, clock=self.clock,
        )  # fmt: skip
        self.show("u1", "u2")
        for number, uid in enumerate(("u1", "u1", "u2")):
            self.let_in(number, uid)

    def let_in(self, number: int, uid: str | None, *, life_s: float = 3600.0, server: str = "NABC") -> None:
        expires_s = int(self.clock.wall_ns() / 1e9 + life_s)
        grant = policy.Grant(
            name="agent/n1", role=roles.Role.AGENT, account=policy.ServiceAccount("carico", "carico-agent"), node="n1",
            pod_uid=uid, permissions=roles.permissions(roles.Role.AGENT, "n1"), expires_s=expires_s,
        )  # fmt: skip
        asked = nats_jwt.decode_request(questions.Server().question())
        self.ended.note(grant, dataclasses.replace(asked, server_id=server, client_id=number))

    def show(self, *uids: str) -> None:
        self.ended.take("carico", list_watch.Listed(objects=list(uids), resource_version="1"))

    def delete(self, uid: str) -> None:
        self.ended.take("carico", list_watch.Changed(type="DELETED", object={"metadata": {"uid": uid}}))

    async def sweep(self, *, is_fresh: bool = True) -> list[int]:
        """Return the clients that the servers were asked to disconnect. `is_fresh`: the watch works."""
        if is_fresh:
            self.ended.freshness["carico"].note()
        self.servers.asked.clear()
        await self.ended.sweep()
        assert {subject for subject, _ in self.servers.asked} <= {"$SYS.REQ.SERVER.NABC.KICK", KICK_OTHER}
        return [number for _, number in self.servers.asked]

    def disconnected(self) -> float | None:
        return self.metrics.registry.get_sample_value("carico_auth_disconnected_total")


async def test_the_clients_of_a_pod_that_is_gone_are_disconnected_once() -> None:
    made = Made()
    made.delete("u1")
    made.clock.advance(SETTLED_S)
    assert await made.sweep() == [0, 1]
    assert await made.sweep() == []
    assert made.disconnected() == 2.0


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


async def test_while_pods_cannot_be_read_nobody_is_disconnected() -> None:
    made = Made()
    made.delete("u1")
    made.ended.take("carico", list_watch.Away(error=errors.ApiUnavailable("away")))
    made.clock.advance(SETTLED_S)
    assert await made.sweep() == []
    made.show("u2")
    assert await made.sweep() == [0, 1]


async def test_a_client_without_a_pod_and_one_whose_token_has_expired_are_left_alone() -> None:
    made = Made()
    made.let_in(7, None)
    made.let_in(8, "u3", life_s=SETTLED_S - 0.5)
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


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_pods, "REMEMBERED_MOST", 2)
    made = Made()
    assert [each.client_id for each in made.ended.connections()] == [1, 2]
