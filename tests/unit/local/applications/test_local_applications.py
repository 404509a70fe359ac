"""The applications' catalogue, manifests, messages, brokers and directory."""

import asyncio
from typing import Any

import pytest

from carico_core.domain import errors
from carico_local.applications import catalog, directory, frames, manifests, network, program, roles, users, work
from carico_local.node.spec import pod as podspec
from carico_local.workloads import main


def calls() -> list[tuple[catalog.Service, catalog.Call]]:
    found = [
        (each, call) for each in catalog.SERVICES.values() for route in each.routes.values() for call in route.calls
    ]
    return found + [(each, each.reads) for each in catalog.SERVICES.values() if each.reads is not None]


def test_every_call_has_a_service_with_that_route() -> None:
    assert len(calls()) >= 30
    for caller, call in calls():
        called = catalog.SERVICES[call.service]
        routes = {"/publish", "/fetch"} if called.kind is catalog.Kind.BROKER else set(called.routes)
        assert call.route in routes, (caller.name, call)
        assert bool(call.topic) == (called.kind is catalog.Kind.BROKER)


def test_the_applications_have_the_services_of_the_paper() -> None:
    assert {name: len(each.services) for name, each in catalog.APPLICATIONS.items()} == {
        "boutique": 11, "vrp": 3, "hub": 9,
    }  # fmt: skip
    for each in catalog.APPLICATIONS.values():
        assert each.entry in {service.name for service in each.services}
    assert {each.name for each in catalog.SERVICES.values() if each.stays} == {
        "boutique-redis", "hub-tsdb", "hub-broker-0", "hub-broker-1", "hub-broker-2",
    }  # fmt: skip


def test_pods_that_talk_begin_on_different_nodes() -> None:
    # "directly inter-communicating Pods are never assigned to the same node" (section 5.3.2)
    for caller, call in calls():
        assert caller.node != catalog.SERVICES[call.service].node
    assert {each.node for each in catalog.SERVICES.values()} == set(range(1, catalog.NODES + 1))


def test_emulated_nodes_run_the_manifests() -> None:
    choice = manifests.Choice(directory="127.0.0.1:5", delay_ms=0.5, rate_mbit=1000.0)
    for each in catalog.SERVICES.values():
        made = manifests.deployment(each, choice)
        template = made["spec"]["template"]
        pod = {**template, "metadata": {**template["metadata"], "name": "p", "namespace": "default", "uid": "u"}}
        parsed = podspec.parse({**pod, "spec": {**pod["spec"], "nodeName": "node-1"}})
        assert not parsed.unsupported
        assert parsed.request_cores == 0.0
        assert {name: value for name, value, _ in parsed.containers[0].env} == {
            program.DIRECTORY_VARIABLE: "127.0.0.1:5", program.DELAY_VARIABLE: "0.5", program.RATE_VARIABLE: "1000",
        }  # fmt: skip
        selected = made["spec"]["selector"]["matchLabels"].items()
        assert selected <= template["metadata"]["labels"].items()
        assert (template["metadata"]["annotations"].get("carico.dev/reschedule") == "false") == each.stays


def test_pods_request_the_papers_share_of_a_node() -> None:
    choice = manifests.Choice(node_cores=6.0, node_memory_bytes=24e9)
    found = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        for each in (manifests.deployment(service, choice) for service in catalog.SERVICES.values())
    }
    assert len(found) == 23
    assert (found["vrp-optimizer"]["cpu"], found["boutique-redis"]["cpu"]) == ("1000m", "125m")
    # Table 11: without other Pods, 29 % of node 4 is requested.
    on_4 = sum(each.cores for each in catalog.SERVICES.values() if each.node == 4)
    assert on_4 / catalog.NODE_CORES == pytest.approx(0.2918, abs=0.02)


def test_a_message_is_read_as_it_was_sent_and_a_cut_one_is_refused() -> None:
    async def read(data: bytes) -> frames.Message | None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await frames.read(reader)

    message = frames.Message(head={"route": "/", "events": [1, 2]}, body=b"abc")
    data = frames.encode(message)
    assert len(data) == frames.size(message)
    assert asyncio.run(read(data)) == message
    assert asyncio.run(read(b"")) is None
    array = frames.encode(frames.Message(head=[1]))  # type: ignore[arg-type]
    for bad in (data[:-1], data[:5], b"\x7f" + data[1:], data.replace(b"{", b"?", 1), array):
        with pytest.raises(ConnectionError):
            asyncio.run(read(bad))


def test_each_group_reads_each_event_once() -> None:
    async def scenario() -> list[Any]:
        broker = roles.Broker()

        async def fetch(group: str) -> Any:
            found = await broker.handle(frames.Message(head={"route": "/fetch", "topic": "t", "group": group}))
            return found.head["events"], len(found.body)

        one, other = asyncio.create_task(fetch("a")), asyncio.create_task(fetch("b"))
        await asyncio.sleep(0)
        await broker.handle(frames.Message(head={"route": "/publish", "topic": "t", "events": [7]}, body=bytes(10)))
        first = [await one, await other]
        await broker.handle(frames.Message(head={"route": "/publish", "topic": "t", "events": [8, 9]}, body=bytes(30)))
        return [*first, await fetch("a"), await fetch("b"), await fetch("late")]

    # A new group begins with the oldest that is kept.
    assert asyncio.run(scenario()) == [([7], 10), ([7], 10), ([8, 9], 30), ([8, 9], 30), ([7, 8, 9], 40)]


def test_a_route_or_topic_that_is_not_there_fails_the_request() -> None:
    async def ask(role: roles.Broker | roles.Work) -> None:
        await role.handle(frames.Message(head={"route": "/nowhere"}))

    client = network.Client(own="", link=network.Link(), directory=directory.Directory({}))
    for role in (
        roles.Broker(),
        roles.Work(catalog.service("vrp-plotter"), client, work.Cores(scale=1.0, timer=Timer())),
    ):
        with pytest.raises(network.Failed, match="no route '/nowhere'"):
            asyncio.run(ask(role))


class Timer:
    """Each look at the CPU's time is .1 ms of work."""

    def __init__(self) -> None:
        self.cpu = 0.0

    def cpu_s(self) -> float:
        self.cpu += 1e-4
        return self.cpu

    def monotonic_s(self) -> float:
        return self.cpu

    def sleep(self, seconds: float) -> None:
        raise AssertionError("other requests would wait")


def test_a_request_computes_for_its_work_at_the_scale() -> None:
    timer = Timer()
    asyncio.run(work.Cores(scale=0.5, timer=timer).work(0.02))
    # Two looks at the timer belong to each slice.
    assert timer.cpu == pytest.approx(0.02 * 0.5, rel=0.3)


def test_services_are_asked_in_turn_and_none_where_none_is_ready() -> None:
    table = directory.Directory({"a": ["127.1.1.1", "127.1.2.1"], "b": []})
    assert {table.pick("a"), table.pick("a")} == {"127.1.1.1", "127.1.2.1"}
    assert table.pick("b") is None
    assert table.pick("c") is None
    # DNS has the names of Services.
    assert directory.Directory().pick("a") == "a"


def test_an_address_has_left_once_no_service_has_it() -> None:
    async def scenario() -> list[bool]:
        table = directory.Directory({"a": ["127.1.1.1"]})
        leaving = asyncio.create_task(table.until_left("127.1.1.1", most_s=60.0))
        seen = []
        for addresses in (["127.1.1.1", "127.1.2.1"], ["127.1.2.1"]):
            table.update({"a": addresses})
            for _ in range(3):
                await asyncio.sleep(0)
            seen.append(leaving.done())
        await table.until_left("127.1.2.1", most_s=0.0)
        await directory.Directory().until_left("a", most_s=60.0)
        return seen

    assert asyncio.run(scenario()) == [False, True]


def test_a_summary_counts_what_began_in_its_span() -> None:
    found = [
        users.Request(application="a", at_s=0.5, took_s=9.0),
        *(users.Request(application="a", at_s=1.0 + index / 100, took_s=index / 1000) for index in range(1, 100)),
        users.Request(application="a", at_s=1.5, took_s=5.0, failed="away"),
        users.Request(application="b", at_s=1.5, took_s=7.0),
    ]
    summary = users.summarize(found, "a", from_s=1.0, until_s=2.0)
    assert (summary.count, summary.failed) == (100, 1)
    assert [summary.mean_ms, summary.p50_ms, summary.p99_ms] == pytest.approx([50.0, 50.0, 99.0])
    assert users.summarize(found, "c", from_s=0.0, until_s=9.0).mean_ms is None


def test_a_link_takes_its_delay_and_the_time_of_the_bytes() -> None:
    link = program.PodOptions(service="", address="", scale=1.0, delay_ms=0.5, rate_mbit=1000.0).link()
    assert link.time_s(125_000) == pytest.approx(0.0015)
    assert program.PodOptions(service="", address="", scale=1.0).link().time_s(10**9) == 0.0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["app", "nothing"], "app: got 'nothing', expected one of boutique-ad, "),
        (["app", "hub-sink", "--delay-ms", "-1"], "--delay-ms: got -1, expected 0 to 1000"),
        (["app", "hub-sink", "--rate-mbit", "nan"], "--rate-mbit: got nan"),
        (["app", "hub-sink", "--directory", "here"], "directory: got 'here', expected HOST:PORT"),
        (["app", "hub-sink", "--directory", "here:65536"], "with a port of 1 to 65535"),
        (["app", "hub-sink", "--address", "127.0.0.256"], "app: cannot listen at 127.0.0.256:7400"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(arguments, {}) == 2
    printed = capsys.readouterr().err
    assert expected in printed
    assert printed.count("\n") == 1


def test_unknown_services_are_named() -> None:
    with pytest.raises(errors.SettingsError, match="vrp-plotter"):
        catalog.service("vrp-plot")
