"""The extender over a state: what passes, what is held meanwhile, and that nothing is promised twice."""

import asyncio
import json
import pathlib
import random
import ssl
from typing import Any

import aiohttp
import pytest

from carico_core.domain import cluster, decision, errors
from carico_core.runtime import memory_kube, metrics, settings
from carico_core.wire import kubernetes_placement
from carico_local.control_plane import certificates
from carico_scheduler import cycle, decisions, instruments, policy, state
from carico_scheduler import demand as demands
from carico_scheduler import settings as setting
from carico_scheduler.extender import messages, server, service, unit
from carico_scheduler.extender import settings as extender_settings
from tests.unit.scheduler import objects

RECORDED = pathlib.Path(__file__).parents[2] / "fixtures/extender"


class Desk:
    """An extender on a memory API whose Pods and Nodes the state is shown at once."""

    def __init__(self, rules: policy.Policy | None = None, **wanted: Any) -> None:
        self.clock = objects.LoopClock(asyncio.get_running_loop())
        self.kube = memory_kube.MemoryKube(clock=self.clock)
        rules = rules or policy.Policy()
        self.state = state.State(rules, random.Random(0))
        self.leads = True
        self.wakes = 0
        self.metrics = metrics.Metrics("scheduler")
        self.log = decisions.Log(
            boot="0" * 16, threshold=1.0, clock=self.clock, on_record=lambda _: None, on_drop=lambda: None
        )
        self.unit = unit.Unit(
            extender_settings.ExtenderSettings(enabled=True, **({"port": 0} | wanted)),
            service.Parts(
                state=self.state, policy=rules, kube=self.kube, clock=self.clock, rng=random.Random(0), log=self.log,
                metrics=instruments.Instruments(self.metrics), bind_timeout_s=1.0, leads=lambda: self.leads,
                wake=self._wake,
            ),
        )  # fmt: skip
        self.extender = self.unit.extender
        self._seq = 0

    def _wake(self) -> None:
        self.wakes += 1

    def node(self, name: str, capacity: float | None, **changes: Any) -> None:
        """A Node, and what it advertises."""
        self.state.put_node(objects.make_node(name))
        if capacity is not None:
            self.advertise(name, capacity, **changes)

    def advertise(self, name: str, capacity: float, age_s: float = 0.0, **changes: Any) -> None:
        """A newer advertisement."""
        self._seq += 1
        now_s = self.clock.monotonic_s()
        made = objects.make_advertisement(name, capacity, seq=self._seq, **changes)
        self.state.put_advertisement(state.Heard(advertisement=made, sampled_s=now_s - age_s), now_s)

    def pod(self, name: str, **changes: Any) -> dict[str, Any]:
        """A Pod at the API and in the state."""
        body = objects.pod_object(name, schedulerName="kube-carico")
        body["metadata"] |= {"uid": f"uid-{name}"} | changes.pop("metadata", {})
        made = self.kube.objects.create("pods", body, "test")
        self.state.put_pod(objects.make_pod(name, scheduler_name="kube-carico", **changes), self.clock.monotonic_s())
        return made

    async def filter(self, pod: dict[str, Any], *names: str) -> dict[str, Any]:
        """The answer to a filter by names."""
        asked = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()
        answer: dict[str, Any] = json.loads(await self.extender.filter(asked))
        return answer

    async def passed(self, pod: dict[str, Any], *names: str) -> list[str]:
        """The nodes that pass."""
        found: list[str] = (await self.filter(pod, *names))["NodeNames"]
        return found

    async def bind(self, pod: dict[str, Any], node: str) -> str:
        """The error of a bind; empty for none."""
        meta = pod["metadata"]
        asked = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": node}
        return str(json.loads(await self.extender.bind(json.dumps(asked).encode()))["Error"])

    def show_bound(self, name: str, node: str) -> None:
        """The watch shows a Pod as bound."""
        pod = objects.make_pod(name, scheduler_name="kube-carico", node_name=node)
        self.state.put_pod(pod, self.clock.monotonic_s())

    def placed_by(self, name: str) -> kubernetes_placement.Advertised | None:
        """What the Pod at the API says it was placed by."""
        return kubernetes_placement.parse_advertised(self.kube.objects.get("pods", ("default", name), "test"))

    def node_of(self, name: str) -> str | None:
        """Where the API has the Pod."""
        found: str | None = self.kube.objects.get("pods", ("default", name), "test")["spec"].get("nodeName")
        return found


@pytest.mark.parametrize("kind", ["names", "nodes"])
def test_requests_of_a_real_kube_scheduler_are_answered_in_kind(kind: str) -> None:
    async def main() -> None:
        desk = Desk()
        for name, capacity in (("a", 3.0), ("b", 0.5), ("c", 2.0)):
            desk.node(f"node-{name}-{kind}", capacity)
        payload = (RECORDED / f"filter-{kind}.json").read_bytes()
        asked = json.loads(payload)
        answer = json.loads(await desk.extender.filter(payload))
        assert answer["Error"] == ""
        assert answer["FailedNodes"] == {f"node-b-{kind}": "capacity: 0.5 free of threshold 1, 0 reserved"}
        if kind == "names":
            assert answer["NodeNames"] == [name for name in asked["NodeNames"] if name != "node-b-names"]
            assert "Nodes" not in answer
        else:
            kept = [each for each in asked["Nodes"]["items"] if each["metadata"]["name"] != "node-b-nodes"]
            assert answer["Nodes"]["items"] == kept, "whole and in their order"
        scores = json.loads(await desk.extender.prioritize((RECORDED / f"prioritize-{kind}.json").read_bytes()))
        assert {each["Host"]: each["Score"] for each in scores} == {f"node-a-{kind}": 10, f"node-c-{kind}": 6}

    objects.run_fast(main())


def test_a_recorded_bind_is_read() -> None:
    found = messages.decode_bind_args((RECORDED / "bind-names.json").read_bytes())
    assert (found.namespace, found.name, found.node) == ("recorded-names", "pi-0", "node-a-names")
    assert len(found.uid) == 36


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"{}", b'{"Pod": {}}', b'{"Pod": null, "NodeNames": []}', b'{"Pod": {"metadata": 1}, "Nodes": 2}'],
)
def test_what_is_not_of_the_protocol_is_refused(payload: bytes) -> None:
    with pytest.raises(messages.BadRequest):
        messages.decode_args(payload)
    with pytest.raises(messages.BadRequest):
        messages.decode_bind_args(payload)


def test_reasons_tell_what_evicting_a_pod_could_change() -> None:
    async def main() -> None:
        desk = Desk()
        desk.node("full", 0.2)
        desk.node("silent", None)
        desk.node("stale", 4.0, age_s=7.0)
        answer = await desk.filter(desk.pod("a"), "full", "silent", "stale", "unheard-of")
        assert answer["NodeNames"] == []
        assert set(answer["FailedNodes"]) == {"full", "unheard-of"}
        assert answer["FailedAndUnresolvableNodes"] == {
            "silent": "no_advertisement: no advertisement seen: is its agent running?",
            "stale": "stale: advertisement 7.0 s old, used to 5 s",
        }

    objects.run_fast(main())


def test_room_is_held_on_every_node_that_passed_until_the_bind_tells_which() -> None:
    async def main() -> None:
        desk = Desk(wait_s=0.05)
        desk.node("n1", 1.0)
        desk.node("n2", 1.0)
        first, second, third = desk.pod("a"), desk.pod("b"), desk.pod("c")
        assert await desk.passed(first, "n1", "n2") == ["n1", "n2"]
        assert await desk.passed(second, "n1", "n2") == [], "either may be the first one's"
        assert await desk.passed(first, "n1", "n2") == ["n1", "n2"], "what is held for itself is no hindrance"
        assert await desk.bind(first, "n2") == ""
        assert desk.node_of("a") == "n2"
        assert desk.wakes
        assert await desk.passed(second, "n1", "n2") == ["n1"]
        assert await desk.bind(second, "n1") == ""
        answer = await desk.filter(third, "n1", "n2")
        assert answer["FailedNodes"] == dict.fromkeys(["n1", "n2"], "capacity: 0 free of threshold 1, 1 reserved")
        record = desk.log.latest("default", "a")
        assert record is not None
        assert (record.outcome, record.node, record.free) == (decision.Outcome.BOUND, "n2", 1.0)
        assert record.message == "n2 chosen by kube-scheduler, with room for 1.0 Pods"

    objects.run_fast(main())


def test_a_filter_waits_for_the_bind_before_it_and_no_longer_than_it_should() -> None:
    async def main() -> None:
        desk = Desk(wait_s=0.1)
        desk.node("n1", 1.0)
        desk.node("n2", 1.0)
        first, second = desk.pod("a"), desk.pod("b")
        await desk.passed(first, "n1", "n2")
        asking = asyncio.create_task(desk.passed(second, "n1", "n2"))
        await asyncio.sleep(0.02)
        assert not asking.done()
        assert await desk.bind(first, "n1") == ""
        assert await asking == ["n2"]
        began_s = desk.clock.monotonic_s()
        assert await desk.passed(desk.pod("c"), "n1", "n2") == []
        assert 0.05 <= desk.clock.monotonic_s() - began_s <= 0.11

    objects.run_fast(main())


def test_holds_end_with_their_pod_with_its_bind_by_others_and_with_time() -> None:
    async def main() -> None:
        desk = Desk(hold_s=5.0, wait_s=0.0)
        desk.node("n1", 3.0)
        for name in "abc":
            assert await desk.passed(desk.pod(name), "n1") == ["n1"]
        assert await desk.passed(desk.pod("d"), "n1") == []
        desk.extender.tidy()
        desk.state.remove_pod("uid-a")
        desk.extender.tidy()
        assert len(desk.extender.holds) == 2
        desk.show_bound("b", "n1")
        desk.extender.tidy()
        assert [hold.pod.name for hold in desk.extender.holds] == ["c"]
        assert desk.state.fleet.snapshot(0.0).row(0).reserved == 1, "the bound one counts by its claim"
        await asyncio.sleep(5.1)
        desk.extender.tidy()
        assert len(desk.extender.holds) == 0

    objects.run_fast(main())


def test_a_bind_that_comes_after_its_hold_is_looked_at_anew() -> None:
    async def main() -> None:
        desk = Desk(hold_s=1.0, wait_s=0.0)
        desk.node("n1", 1.0)
        late, other = desk.pod("late"), desk.pod("other")
        assert await desk.passed(late, "n1") == ["n1"]
        await asyncio.sleep(2.0)
        assert await desk.passed(other, "n1") == ["n1"]
        assert "n1 has no room any more: capacity: 0 free" in await desk.bind(late, "n1")
        assert desk.node_of("late") is None
        assert await desk.bind(other, "n1") == ""

    objects.run_fast(main())


def test_a_bind_is_answered_by_what_became_of_it() -> None:
    async def main() -> None:
        desk = Desk()
        desk.node("n1", 4.0)
        desk.node("n2", 4.0)
        pod = desk.pod("a")
        await desk.passed(pod, "n1")
        desk.kube.fail_next(errors.Invalid(status=422, reason="Invalid", message="no", request="POST"), path="/binding")
        assert "not bound to n1" in await desk.bind(pod, "n1")
        assert len(desk.state.ledger) == 0
        assert len(desk.state.queue) == 0, "it is kube-scheduler's to try again"
        # Asked twice: the first answer may have been lost.
        assert await desk.bind(pod, "n1") == ""
        assert desk.placed_by("a") == (objects.BOOT, 1)
        desk.show_bound("a", "n1")
        assert await desk.bind(pod, "n1") == ""
        assert await desk.bind(pod, "n2") == "bound to n1 already"
        assert (await desk.filter(pod, "n1"))["Error"] == "bound to n1 already"
        gone = desk.pod("gone")
        desk.kube.objects.delete("pods", ("default", "gone"), {}, "test")
        assert "not bound to n1" in await desk.bind(gone, "n1")
        assert desk.state.ledger.find("uid-gone") is None

    objects.run_fast(main())


def test_while_a_bind_is_in_doubt_nothing_else_is_done_with_the_pod() -> None:
    async def main() -> None:
        desk = Desk()
        desk.node("n1", 4.0)
        pod = desk.pod("a")
        await desk.passed(pod, "n1")
        desk.kube.go_away()
        asking = asyncio.create_task(desk.bind(pod, "n1"))
        await asyncio.sleep(3.0)
        assert not asking.done()
        assert (await desk.filter(pod, "n1"))["Error"] == "a bind to n1 is under way"
        # Who asked gives up; the bind does not.
        asking.cancel()
        desk.kube.come_back()
        await asyncio.sleep(3.0)
        assert desk.node_of("a") is None
        assert len(desk.state.ledger) == 0
        desk.advertise("n1", 4.0)
        assert await desk.bind(pod, "n1") == ""

    objects.run_fast(main())


def test_a_pod_that_the_watch_has_not_shown_yet_is_bound_as_the_filter_or_the_api_told() -> None:
    async def main() -> None:
        desk = Desk()
        desk.node("n1", 4.0)
        body = objects.pod_object("a", schedulerName="kube-carico")
        made = desk.kube.objects.create("pods", body, "test")
        await desk.passed(made, "n1")
        assert await desk.bind(made, "n1") == ""
        other = desk.kube.objects.create("pods", objects.pod_object("b", schedulerName="kube-carico"), "test")
        assert await desk.bind(other, "n1") == ""
        other["metadata"]["uid"] = "another"
        assert "another Pod now" in await desk.bind(other, "n1")
        other["metadata"]["name"] = "nobody"
        assert "cannot be read" in await desk.bind(other, "n1")

    objects.run_fast(main())


def test_pods_of_the_node_and_of_carico_itself_pass_everywhere() -> None:
    async def main() -> None:
        desk = Desk(exempt=("carico-system",))
        desk.node("n1", 0.0)
        own = objects.pod_object("nats")
        own["metadata"] |= {"namespace": "carico-system", "uid": "1"}
        daemon = objects.pod_object("agent")
        owner = {"kind": "DaemonSet", "name": "agent", "uid": "2", "controller": True, "apiVersion": "apps/v1"}
        daemon["metadata"] |= {"uid": "3", "ownerReferences": [owner]}
        for pod in (own, daemon):
            assert await desk.passed(pod, "n1", "unheard-of") == ["n1", "unheard-of"]
        assert len(desk.extender.holds) == 0
        body = json.dumps({"Pod": daemon, "NodeNames": ["n1"]}).encode()
        assert json.loads(await desk.extender.prioritize(body)) == [{"Host": "n1", "Score": 0}]
        desk.kube.objects.create("pods", daemon, "test")
        assert await desk.bind(daemon, "n1") == ""
        assert desk.placed_by("agent") is None

    objects.run_fast(main())


def test_by_requests_alone_while_nobody_advertises_where_the_policy_says_so() -> None:
    async def main() -> None:
        desk = Desk(policy.Policy(fallback=policy.Fallback.REQUESTS))
        desk.node("n1", None)
        assert await desk.passed(desk.pod("a"), "n1") == ["n1"]
        desk.node("n2", 4.0)
        assert await desk.passed(desk.pod("b"), "n1", "n2") == ["n2"]

    objects.run_fast(main())


def test_what_is_held_is_not_given_to_our_own_pods() -> None:
    async def main() -> None:
        desk = Desk()
        desk.node("n1", 2.0)
        await desk.passed(desk.pod("theirs"), "n1")
        now_s = desk.clock.monotonic_s()
        for name in ("mine", "mine-too"):
            desk.state.put_pod(objects.make_pod(name), now_s)
        (held,) = desk.extender.held()
        assert held == ("n1", demands.demand_of(cluster_pod(desk, "theirs")))
        outcome = cycle.Cycle(policy.Policy()).run(
            desk.state.fleet.snapshot(now_s), desk.state.queue, most=8, held=[(0, held[1])]
        )
        assert (len(outcome.placed), len(outcome.unplaced)) == (1, 1)

    objects.run_fast(main())


def cluster_pod(desk: Desk, name: str) -> cluster.Pod:
    found = desk.extender.holds.find(f"uid-{name}")
    assert found is not None
    return found.pod


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("binds", ["ours", "its own"])
def test_however_filters_and_binds_fall_no_node_gets_more_than_it_said(seed: int, binds: str) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        desk = Desk(wait_s=0.01, hold_s=1000.0)
        room = {f"n{index}": rng.randrange(4) for index in range(3)}
        for name, capacity in room.items():
            desk.node(name, float(capacity))

        async def schedule(name: str) -> None:
            pod = desk.pod(name)
            for _ in range(20):
                await asyncio.sleep(rng.uniform(0.0, 0.2))
                passed = await desk.passed(pod, *room)
                if not passed or rng.random() < 0.1:
                    continue
                node = rng.choice(passed)
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                if binds == "ours":
                    if await desk.bind(pod, node) == "":
                        return
                else:
                    path = f"/api/v1/namespaces/default/pods/{name}/binding"
                    await desk.kube.request("POST", path, body={"metadata": {}, "target": {"name": node}})
                    await asyncio.sleep(rng.uniform(0.0, 0.1))
                    desk.show_bound(name, node)
                    return

        async with asyncio.TaskGroup() as group:
            for index in range(12):
                group.create_task(schedule(f"pod-{index}"))
        placed = [desk.node_of(f"pod-{index}") for index in range(12)]
        for name, capacity in room.items():
            assert placed.count(name) <= capacity
        assert sum(each is not None for each in placed) == sum(room.values()), "all room is found in the end"

    objects.run_fast(main())


async def test_the_server_says_who_may_ask_what() -> None:
    desk = Desk()
    desk.node("node-a-names", 3.0)
    answers: list[tuple[str, int]] = []
    running = await server.serve(
        desk.extender, extender_settings.ExtenderSettings(enabled=True, port=0), clock=desk.clock,
        on_answer=lambda verb, status, took_s: answers.append((verb, status)),
    )  # fmt: skip
    url = f"http://127.0.0.1:{running.port}"
    async with aiohttp.ClientSession() as session:
        payload = (RECORDED / "filter-names.json").read_bytes()
        async with session.post(f"{url}/filter", data=payload) as answer:
            assert (await answer.json())["NodeNames"] == ["node-a-names"]
        async with session.post(f"{url}/filter", data=b"nonsense") as answer:
            assert answer.status == 400
            assert "expected JSON" in await answer.text()
        desk.leads = False
        for verb in ("filter", "prioritize", "bind"):
            async with session.post(f"{url}/{verb}", data=payload) as answer:
                assert answer.status == 503
                assert "stands by" in await answer.text()
        async with session.get(f"{url}/filter") as answer:
            assert answer.status == 405
    await running.close()
    assert answers == [("filter", 200), ("filter", 400), ("filter", 503), ("prioritize", 503), ("bind", 503)]


async def test_a_port_in_use_is_one_line() -> None:
    desk = Desk()
    wanted = extender_settings.ExtenderSettings(enabled=True, port=0)
    first = await server.serve(desk.extender, wanted, clock=desk.clock, on_answer=lambda *_: None)
    taken = extender_settings.ExtenderSettings(enabled=True, port=first.port)
    with pytest.raises(errors.EnvironmentUnfit, match="give --extender-port another port"):
        await server.serve(desk.extender, taken, clock=desk.clock, on_answer=lambda *_: None)
    await first.close()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--extender", "--extender-host", "0.0.0.0"), "whoever reaches it could bind Pods"),
        (("--extender", "--extender-tls-cert", "a"), "expected both"),
        (("--extender", "--extender-tls-client-ca", "a"), "expected both"),
        (("--extender-hold-s", "0"), "--extender-hold-s: got '0'"),
    ],
)
def test_settings_that_would_open_it_to_anybody_are_refused(argv: tuple[str, ...], says: str) -> None:
    with pytest.raises(errors.SettingsError, match=says):
        settings.load(setting.SchedulerSettings, prefix="scheduler", argv=argv, environ={}, program="test")


def test_one_that_stands_by_refuses() -> None:
    async def main() -> None:
        desk = Desk()
        desk.leads = False
        with pytest.raises(service.StandsBy):
            await desk.extender.filter((RECORDED / "filter-names.json").read_bytes())

    objects.run_fast(main())


async def test_over_tls_only_clients_of_the_authority_are_answered(tmp_path: pathlib.Path) -> None:
    ours = certificates.Authority(directory=tmp_path / "ours", environ=settings.environment())
    foreign = certificates.Authority(directory=tmp_path / "foreign", environ=settings.environment())
    ours.ensure("ca")
    foreign.ensure("ca")
    pair = ours.issue("extender", user="extender", hosts=["127.0.0.1"])
    desk = Desk()
    desk.node("node-a-names", 3.0)
    wanted = extender_settings.ExtenderSettings(
        enabled=True, port=0, tls_cert=str(pair.certificate), tls_key=str(pair.key),
        tls_client_ca=str(ours.pair.certificate),
    )  # fmt: skip
    running = await server.serve(desk.extender, wanted, clock=desk.clock, on_answer=lambda *_: None)
    payload = (RECORDED / "filter-names.json").read_bytes()

    async def ask(client: certificates.Pair | None) -> int:
        tls = ssl.create_default_context(cafile=str(ours.pair.certificate))
        if client is not None:
            tls.load_cert_chain(client.certificate, client.key)
        async with aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{running.port}/filter"
            async with session.post(url, data=payload, ssl=tls) as answer:
                return answer.status

    assert await ask(ours.issue("kube-scheduler", user="system:kube-scheduler")) == 200
    for stranger in (None, foreign.issue("stranger", user="system:kube-scheduler")):
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await ask(stranger)
    await running.close()
    broken = extender_settings.ExtenderSettings(enabled=True, port=0, tls_cert="/nowhere", tls_key="/nowhere")
    with pytest.raises(errors.SettingsError, match="cannot be read"):
        await server.serve(desk.extender, broken, clock=desk.clock, on_answer=lambda *_: None)
