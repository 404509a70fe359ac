"""The checker of the nemesis accepts a good history, and names what is wrong in each bad one."""

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import socket
from collections.abc import Callable, Iterator

import aiohttp
import pytest
import yaml
from aiohttp import test_utils, web

from carico_core.domain import amounts, decision, messages
from carico_local.cgroups import layout as layouts
from tests.chaos.nemesis import checker, history, memory_limits, nemesis_site, scheduler_api
from tests.tools import advertised as advertisements

ROOT = pathlib.Path(__file__).parents[2]
LIMITS = checker.Limits()
LATE_S = LIMITS.late_s
LEASE_S = 6.0
NODES = {"node-1": {"zone": "a"}, "node-2": {"zone": "b"}}
POD_CLASS = "app/default/nemesis"
# Every Pod of `good` is bound here, at 10, 11, ... and runs for 20 s.
NODE = "node-1"
OVER_S = 40.0


def advertised(
    seq: int, at_s: float, *, room: float, covers: frozenset[str] = frozenset(), limit: int | None = None
) -> history.Advertised:
    """An advertisement of NODE with room for that many Pods."""
    said = advertisements.advertisement(
        NODE, room=room, covers=covers, boot="b", seq=seq, at_ns=int(at_s * 1e9),
        headroom={"cpu": 2.0 * room, "memory": 1e12},
        classes={POD_CLASS: messages.ClassCapacity(cost_plus={"cpu": 2.0, "memory": 1.0}, pods=len(covers))},
        limit=limit,
    )  # fmt: skip
    return history.Advertised(at_s=at_s, said=said)


def decided(index: int, *, seq: int, room: float, age_s: float = 0.5) -> decision.Decision:
    """The record of a Pod's bind to NODE, by the advertisement `seq`."""
    chosen = decision.Candidate(
        node=NODE, capacity=room, reserved=0.0, age_s=age_s, seq=seq, score=1.0, rejection=None
    )  # fmt: skip
    return decision.Decision(
        id=f"b-{index}", boot="b", seq=index, ts_ns=0, namespace="default", pod=f"pod-{index}", uid=f"uid-{index}",
        outcome=decision.Outcome.BOUND, node=NODE, free=room, threshold=1.0, attempt=1, waited_s=0.1, decided_us=50.0,
        candidates=(chosen,), refused={}, message="",
    )  # fmt: skip


def good(pods: int = 3) -> history.History:
    """A history in which that many Pods run at the same time on NODE, which had room for exactly these."""
    found = history.History(nodes=dict(NODES), pod_class=POD_CLASS)
    found.terms = [history.Term(holder="one", at_s=8.0 + 2 * i, duration_s=LEASE_S) for i in range(10)]
    found.advertised = [advertised(1, 9.0, room=float(pods))]
    for i in range(pods):
        uid, name, at_s = f"uid-{i}", f"pod-{i}", 10.0 + i
        found.pods.append(history.Pod(uid=uid, name=name, created_s=at_s - 1, selector={"zone": "a"}))
        found.binds.append(
            history.Bind(scheduler="one", pod=name, uid=uid, node=NODE, sent_s=at_s, status=checker.CREATED)
        )
        found.decisions.append(decided(i, seq=1, room=float(pods)))
        for after_s, node, phase in ((-1.0, None, "Pending"), (0.1, NODE, "Pending"), (20.0, NODE, "Succeeded")):
            found.shown.append(history.Shown(uid=uid, at_s=at_s + after_s, node=node, phase=phase))
        found.runs.append(history.Run(uid=uid, node=NODE, at_s=at_s + 0.5))
        found.runs.append(history.Run(uid=uid, node=NODE, at_s=at_s + 20.0, is_start=False))
    found.faults = [history.Fault(kind="kill", target="nats", began_s=15.0, ended_s=OVER_S)]
    found.samples = [
        history.Sample(
            service="scheduler", instance="7", at_s=float(i), rss_bytes=60_000_000 + i, descriptors=20, threads=4
        )
        for i in range(120)
    ]  # fmt: skip
    return found


def rules(found: history.History) -> set[str]:
    """The rules that a history violates."""
    return {each.rule for each in checker.check(found, LIMITS)}


def test_a_good_history_has_no_violation() -> None:
    assert checker.check(good(), LIMITS) == []
    assert checker.judged(good()) == 3


def test_a_pod_that_we_deleted_may_end_at_any_moment() -> None:
    found = good()
    found.pods[1] = dataclasses.replace(found.pods[1], deleted_s=12.0)
    found.runs = [run for run in found.runs if run.uid != "uid-1"]
    found.shown[-1] = dataclasses.replace(found.shown[-1], phase="Succeeded")
    found.shown.append(history.Shown(uid="uid-1", at_s=13.0, node=NODE, phase="Failed", is_gone=True))
    assert checker.check(found, LIMITS) == []


def started_twice(found: history.History) -> None:
    found.runs.append(history.Run(uid="uid-0", node=NODE, at_s=25.0))


def ran_uncreated(found: history.History) -> None:
    found.runs.append(history.Run(uid="uid-9", node=NODE, at_s=25.0))


def started_elsewhere(found: history.History) -> None:
    found.runs[0] = dataclasses.replace(found.runs[0], node="node-2")


def started_after_removal(found: history.History) -> None:
    found.pods[0] = dataclasses.replace(found.pods[0], deleted_s=1.0)
    found.shown.append(history.Shown(uid="uid-0", at_s=10.4 - LIMITS.stale_s, node=NODE, phase="Pending", is_gone=True))


def two_nodes(found: history.History) -> None:
    found.nodes["node-2"] = {"zone": "a"}
    found.shown.append(history.Shown(uid="uid-0", at_s=11.0, node="node-2", phase="Pending"))
    found.shown.append(history.Shown(uid="uid-0", at_s=30.0, node=NODE, phase="Succeeded"))


def accepted_twice(found: history.History) -> None:
    found.binds.append(dataclasses.replace(found.binds[-1], sent_s=12.5))


def never_ended(found: history.History) -> None:
    found.shown = [each for each in found.shown if (each.uid, each.phase) != ("uid-2", "Succeeded")]


def failed(found: history.History) -> None:
    found.shown.append(history.Shown(uid="uid-2", at_s=33.0, node=NODE, phase="Failed", reason="NodeAffinity"))


def never_finished(found: history.History) -> None:
    found.runs = [run for run in found.runs if run.uid != "uid-2" or run.is_start]


def removed_unasked(found: history.History) -> None:
    found.shown.append(history.Shown(uid="uid-2", at_s=35.0, node=NODE, phase="Succeeded", is_gone=True))


def wrong_zone(found: history.History) -> None:
    found.pods[0] = dataclasses.replace(found.pods[0], selector={"zone": "b"})


def onto_a_cordoned_node(found: history.History) -> None:
    found.cordons = [history.Cordon(node=NODE, at_s=11.5 - LIMITS.stale_s, is_on=True)]


def by_a_standby(found: history.History) -> None:
    found.binds[1] = dataclasses.replace(found.binds[1], scheduler="two")


def by_a_deposed_leader(found: history.History) -> None:
    found.terms = [each for each in found.terms if each.at_s < 10.0]
    found.binds[2] = dataclasses.replace(found.binds[2], sent_s=8.0 + LEASE_S + LATE_S + 0.1)


def without_a_lease(found: history.History) -> None:
    found.terms.clear()


def after_an_offer(found: history.History) -> None:
    found.terms.append(history.Term(holder="", at_s=11.9, duration_s=1.0))
    found.terms.sort(key=lambda each: each.at_s)
    found.binds[2] = dataclasses.replace(found.binds[2], sent_s=11.95)


def beyond_room(found: history.History) -> None:
    found.advertised[0] = advertised(1, 9.0, room=2.0)
    found.decisions = [decided(i, seq=1, room=2.0) for i in range(3)]


def beyond_growth(found: history.History) -> None:
    found.advertised[0] = advertised(1, 9.0, room=3.0, limit=2)


def by_an_old_advertisement(found: history.History) -> None:
    found.decisions[0] = decided(0, seq=1, room=3.0, age_s=checker.AGE_MOST_S + 0.1)


def without_an_advertisement(found: history.History) -> None:
    chosen = found.decisions[0].candidates[0]._replace(seq=None)
    found.decisions[0] = dataclasses.replace(found.decisions[0], candidates=(chosen,))


def too_late(found: history.History) -> None:
    last = max(range(len(found.shown)), key=lambda index: found.shown[index].at_s)
    found.shown[last] = dataclasses.replace(found.shown[last], at_s=OVER_S + LIMITS.settled_s + 0.1)


def memory_that_grows(found: history.History) -> None:
    found.samples = [
        dataclasses.replace(each, rss_bytes=60_000_000 + int(each.at_s) * 500_000) for each in found.samples
    ]


def descriptors_that_leak(found: history.History) -> None:
    found.samples = [dataclasses.replace(each, descriptors=20 + int(each.at_s)) for each in found.samples]


def threads_that_leak(found: history.History) -> None:
    found.samples = [dataclasses.replace(each, threads=4 + int(each.at_s)) for each in found.samples]


def memory_near_the_limit_of_the_manifest(found: history.History) -> None:
    near_bytes = round(0.8 * checker.MEMORY_LIMITS["agent"])
    found.samples.append(
        history.Sample(service="agent/node-1", instance="x", at_s=20.0, rss_bytes=near_bytes, descriptors=1, threads=1)
    )


def killed_at_the_limit_of_the_manifest(found: history.History) -> None:
    found.out_of_memory = {"agent/node-1": 1}


def more_memory_than_the_manifest_allows(found: history.History) -> None:
    sample = dataclasses.replace(found.samples[0], service="agent/node-1", rss_bytes=(256 << 20) + 1)
    found.samples.append(sample)


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (started_twice, "ran once"),
        (ran_uncreated, "ran once"),
        (started_elsewhere, "ran once"),
        (started_after_removal, "ran once"),
        (two_nodes, "bound once"),
        (accepted_twice, "bound once"),
        (never_ended, "not lost"),
        (failed, "not lost"),
        (never_finished, "not lost"),
        (removed_unasked, "not lost"),
        (wrong_zone, "where allowed"),
        (onto_a_cordoned_node, "where allowed"),
        (by_a_standby, "only leaders"),
        (by_a_deposed_leader, "only leaders"),
        (without_a_lease, "only leaders"),
        (after_an_offer, "only leaders"),
        (beyond_room, "within room"),
        (beyond_growth, "within room"),
        (by_an_old_advertisement, "within room"),
        (without_an_advertisement, "within room"),
        (too_late, "settled"),
        (memory_that_grows, "plateau"),
        (descriptors_that_leak, "plateau"),
        (threads_that_leak, "plateau"),
        (more_memory_than_the_manifest_allows, "within memory"),
        (memory_near_the_limit_of_the_manifest, "within memory"),
        (killed_at_the_limit_of_the_manifest, "within memory"),
    ],
)
def test_a_bad_history_is_named_by_its_rule(spoil: Callable[[history.History], None], rule: str) -> None:
    found = good()
    spoil(found)
    assert rules(found) == {rule}, [str(each) for each in checker.check(found, LIMITS)]


def test_a_pod_that_was_never_started_is_lost() -> None:
    found = good()
    found.runs = [run for run in found.runs if run.uid != "uid-0"]
    assert rules(found) == {"not lost"}


def test_a_pod_that_an_advertisement_covers_is_not_reserved_too() -> None:
    found = good()
    found.advertised.append(advertised(2, 11.5, room=1.0, covers=frozenset({"uid-0", "uid-1"})))
    found.decisions[2] = decided(2, seq=2, room=1.0)
    assert checker.check(found, LIMITS) == []
    # With one of them missing there, it takes the last room.
    found.advertised[-1] = advertised(2, 11.5, room=1.0, covers=frozenset({"uid-0"}))
    assert rules(found) == {"within room"}


def test_an_advertisement_of_an_agents_next_process_is_not_that_of_the_decision() -> None:
    found = good()
    found.advertised.append(advertised(1, 30.0, room=3.0, limit=0))
    assert checker.check(found, LIMITS) == []
    # Whatever the clocks of its agent and the scheduler say.
    later = advertised(1, 1e9, room=3.0, limit=0)
    found.advertised[-1] = dataclasses.replace(later, at_s=11.0)
    assert rules(found) == {"within room"}


def test_an_ended_pod_takes_no_room() -> None:
    found = good()
    found.advertised[0] = advertised(1, 9.0, room=2.0)
    found.decisions = [decided(i, seq=1, room=2.0) for i in range(3)]
    found.shown.append(history.Shown(uid="uid-0", at_s=11.0, node=NODE, phase="Succeeded"))
    found.shown.sort(key=lambda each: each.at_s)
    assert checker.check(found, LIMITS) == []


def test_an_empty_node_takes_one_pod_that_costs_more_than_all_of_its_room() -> None:
    said = advertised(1, 9.0, room=1.0).said
    costly = {POD_CLASS: messages.ClassCapacity(cost_plus={"cpu": 5.0}, pods=0)}
    assert checker.free(said._replace(classes=costly), POD_CLASS, []) == 1.0
    assert checker.free(said._replace(classes=costly), POD_CLASS, [POD_CLASS]) < 0.0
    assert checker.free(said._replace(classes=costly, capacity=0.4), POD_CLASS, []) == 0.4


def test_a_fault_excuses_that_a_cordon_is_not_known_yet() -> None:
    found = good()
    onto_a_cordoned_node(found)
    began_s = found.cordons[0].at_s
    found.faults += [
        history.Fault(kind="stop", target="leader", began_s=began_s + 1, ended_s=began_s + 3),
        history.Fault(kind="stop", target="api", began_s=began_s + 2, ended_s=began_s + 2.1),
    ]
    assert checker.check(found, LIMITS) == []


def test_a_service_that_is_restarted_is_judged_over_all_of_its_processes() -> None:
    found = good()
    found.samples = [
        dataclasses.replace(each, instance=str(each.at_s // 30), descriptors=20 + int(each.at_s))
        for each in found.samples
    ]
    assert rules(found) == {"plateau"}
    # A process grows while it starts.
    found.samples = [
        dataclasses.replace(each, descriptors=20, rss_bytes=60_000_000 if each.at_s % 30 >= 5 else 10_000_000)
        for each in found.samples
    ]
    assert checker.check(found, LIMITS) == []


def test_a_process_that_has_less_while_it_is_young_is_compared_with_others_of_its_age() -> None:
    """It is killed every 20 s, and from 60 s on no more: old ones have more than any of those."""
    found = good()
    born_s = [min(each.at_s // 20 * 20, 60.0) for each in found.samples]
    found.samples = [
        dataclasses.replace(
            each, instance=str(at_s), rss_bytes=round(50e6 + min(each.at_s - at_s, 40.0) * 1e6),
            descriptors=20 + round(min(each.at_s - at_s, 40.0)),
        )
        for each, at_s in zip(found.samples, born_s, strict=True)
    ]  # fmt: skip
    assert checker.check(found, LIMITS) == []
    level = found.samples
    # A leak in the last process.
    found.samples = [
        dataclasses.replace(each, descriptors=each.descriptors + max(round(each.at_s) - 60, 0)) for each in level
    ]
    assert rules(found) == {"plateau"}
    # Something that is kept from one process to the next.
    found.samples = [
        dataclasses.replace(each, rss_bytes=each.rss_bytes + round(at_s * 1e6))
        for each, at_s in zip(level, born_s, strict=True)
    ]
    assert rules(found) == {"plateau"}


def test_a_connection_counts_at_its_client_and_at_a_server_that_does_not_close_it() -> None:
    before = nemesis_site.descriptors(os.getpid())
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        clients = [socket.create_connection(server.getsockname()) for _ in range(5)]
        accepted = [stack.enter_context(server.accept()[0]) for _ in clients]
        assert nemesis_site.descriptors(os.getpid()) == before + 1 + len(clients)
        for each in clients:
            each.close()
        for each in accepted:
            # Returns once the client's end has arrived.
            assert each.recv(1) == b""
        assert nemesis_site.descriptors(os.getpid()) == before + 1 + len(accepted)


def test_connections_that_come_while_descriptors_are_counted_do_not_count_at_their_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients that were cut off come back together: the API had 52 descriptors in place of 20."""
    listed = pathlib.Path.iterdir
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        before = nemesis_site.descriptors(os.getpid())
        clients: list[socket.socket] = []

        def late(self: pathlib.Path) -> Iterator[pathlib.Path]:
            for _ in range(5):
                clients.append(stack.enter_context(socket.create_connection(server.getsockname())))
                stack.enter_context(server.accept()[0])
            return listed(self)

        monkeypatch.setattr(pathlib.Path, "iterdir", late)
        assert nemesis_site.descriptors(os.getpid()) == before + len(clients)


def test_a_cordon_that_was_removed_forbids_nothing() -> None:
    found = good()
    onto_a_cordoned_node(found)
    found.cordons.append(history.Cordon(node=NODE, at_s=9.0, is_on=False))
    assert checker.check(found, LIMITS) == []


@pytest.mark.parametrize("service", checker.MEMORY_LIMITS)
def test_the_limits_of_memory_are_those_of_the_manifests(service: str) -> None:
    documents = yaml.safe_load_all((ROOT / f"deploy/k8s/base/{service}.yaml").read_text())
    limits = [
        container["resources"]["limits"]["memory"]
        for document in documents
        if document["kind"] in ("Deployment", "StatefulSet", "DaemonSet")
        for container in document["spec"]["template"]["spec"]["containers"]
    ]
    assert [amounts.parse_quantity(limit) for limit in limits] == [checker.MEMORY_LIMITS[service]]


def test_placed_s_counts_from_the_last_fault() -> None:
    found = good()
    assert checker.placed_s(found) == 0.0
    found.binds[-1] = dataclasses.replace(found.binds[-1], sent_s=OVER_S + 2.5)
    assert checker.placed_s(found) == 2.5


UNREADY = '{"services":[{"name":"nats","ready":true},{"name":"api","ready":false,"why_not":"it is stopped"}]}'
READY = '{"services":[{"name":"api","ready":true}]}'
WARNS = '[{"level":"ok","what":"NATS","detail":"nats"},{"level":"warn","what":"services","detail":"not ready: api"}]'


def look(command: str, target: str, out: str, *, code: int = 1, err: str = "") -> history.Look:
    return history.Look(command=command, target=target, began_s=20.0, ended_s=22.0, code=code, out=out, err=err)


@pytest.mark.parametrize(
    "good_look",
    [look("status", "api", UNREADY), look("doctor", "api", WARNS, code=3), look("status", "", READY, code=0)],
)
def test_a_command_that_names_what_does_not_work_is_no_violation(good_look: history.Look) -> None:
    found = good()
    found.looks.append(good_look)
    assert checker.check(found, LIMITS) == []


@pytest.mark.parametrize(
    ("bad_look", "said"),
    [
        (look("status", "nats", UNREADY), "names only"),
        (look("doctor", "nats", WARNS, code=3), "names only"),
        (look("status", "api", READY, code=0), "exit code 0"),
        (look("status", "", UNREADY), "exit code 1"),
        (look("doctor", "api", "", err="Traceback (most recent call last):"), "Traceback"),
        (look("status", "api", UNREADY, err="Traceback (most recent call last):"), "Traceback"),
    ],
)
def test_a_command_that_hides_what_does_not_work_or_does_not_answer_is_named(bad_look: history.Look, said: str) -> None:
    found = good()
    found.looks.append(bad_look)
    (violation,) = checker.check(found, LIMITS)
    assert violation.rule == "reported" and said in violation.detail


@pytest.mark.parametrize(
    ("trees", "used"),
    [
        (("cpu", "memory", "unified"), ["memory"]), (("unified",), ["unified"]), (("cpu", "unified"), ["unified"]),
        (("cpu",), []), ((), []),
    ],
)  # fmt: skip
def test_a_service_joins_only_the_group_that_limits_its_memory(trees: tuple[str, ...], used: list[str]) -> None:
    found = layouts.Layout(version=layouts.Version.V1, trees={each: pathlib.Path("/", each) for each in trees})
    assert list(memory_limits._memory_alone(found).trees) == used


async def test_a_bind_is_of_the_process_that_sent_it_also_if_another_has_started_before_the_answer() -> None:
    sent, answers, found = asyncio.Event(), asyncio.Event(), history.History()

    async def answer(_: web.Request) -> web.Response:
        sent.set()
        await answers.wait()
        return web.json_response({}, status=201)

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    server = test_utils.TestServer(app)
    await server.start_server()
    way = scheduler_api.SchedulerApi(str(server.make_url("")).rstrip("/"), token="", into=found, is_good=lambda _: True)
    way.identity = "scheduler.1"
    body = {"metadata": {"name": "pod-1", "uid": "1"}, "target": {"name": NODE}}
    async with way.running(), aiohttp.ClientSession() as client:
        bound = asyncio.ensure_future(client.post(f"{way.url}/api/v1/namespaces/a/pods/pod-1/binding", json=body))
        await sent.wait()
        way.identity = "scheduler.2"
        answers.set()
        assert (await bound).status == 201
    await server.close()
    assert [(each.scheduler, each.pod, each.status) for each in found.binds] == [("scheduler.1", "pod-1", 201)]
