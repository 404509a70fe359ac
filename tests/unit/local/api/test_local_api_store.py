"""The store and what is built right on it: durability, history, lists, node lifecycle."""

import asyncio
import dataclasses
import pathlib
import tracemalloc
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_local.api import cluster
from carico_local.api.http import requests
from carico_local.api.lifecycle import events, nodes
from carico_local.api.model import objects, resources, statuses
from carico_local.api.storage import selectors, store, watch
from tests.tools import waiting


@pytest.fixture
def kept(tmp_path: pathlib.Path) -> Iterator[store.Store]:
    opened = store.Store(tmp_path)
    yield opened
    opened.close()


def put(kept: store.Store, name: str, storage: str = "nodes", **fields: Any) -> objects.Stored:
    return kept.put(storage, {"metadata": {"name": name, "uid": name}, **fields})


def view(namespace: str = "") -> watch.View:
    return watch.View(
        namespace=namespace,
        selector=selectors.Selector(),
        representation="plain",
        render=lambda stored: stored.body,
    )


def test_a_reopened_store_goes_on_where_it_was(tmp_path: pathlib.Path) -> None:
    first = store.Store(tmp_path)
    put(first, "a")
    gone = put(first, "b")
    first.remove("nodes", gone.data)
    revision = first.revision
    first.close()
    second = store.Store(tmp_path)
    assert [item.data["metadata"]["name"] for item in second.select("nodes")] == ["a"]
    assert second.revision == revision
    assert put(second, "c").version == revision + 1
    second.close()


def test_two_processes_do_not_share_a_directory(tmp_path: pathlib.Path, kept: store.Store) -> None:
    with pytest.raises(errors.SettingsError, match="in use"):
        store.Store(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "objects.sqlite3").write_bytes(b"something else" * 100)
    with pytest.raises(errors.SettingsError, match="cannot use the data directory"):
        store.Store(tmp_path)


def test_an_object_and_its_past_take_little_more_than_their_bytes(kept: store.Store) -> None:
    hub = watch.Hub(kept, clocks.FakeClock())
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for version in range(200):
            put(kept, "a", status={"text": f"{version:02000}"})
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(hub._histories["nodes"]) == 200
    assert grown < 200 * 3_000


def test_a_batch_is_announced_after_its_commit(kept: store.Store) -> None:
    told: list[str] = []
    kept.listen(lambda change: told.append(change.key[1]))
    with kept.batch():
        put(kept, "a")
        put(kept, "b")
        assert told == []
    assert told == ["a", "b"]


def test_a_bounded_history_makes_old_versions_gone(kept: store.Store) -> None:
    hub = watch.Hub(kept, clocks.FakeClock(), history_events=2)
    versions = [put(kept, name).version for name in "abcd"]
    with pytest.raises(statuses.RequestFailed) as caught:
        hub.watch("nodes", view(), versions[0])
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    hub.watch("nodes", view(), versions[1])


def test_the_history_of_every_kind_is_as_long_as_watches_need_it(kept: store.Store) -> None:
    clock = clocks.FakeClock()
    hub = watch.Hub(kept, clock)
    versions = [put(kept, f"a-{index}").version for index in range(100)]
    clock.advance(watch.HISTORY_S / 2)
    recent = put(kept, "b").version
    # What was seen before the first of them may be resumed for as long as it may be a minute old.
    hub.watch("nodes", view(), versions[0])
    clock.advance(watch.HISTORY_S * 0.75)
    # A change of another kind.
    lease(kept, "n", "2025-01-01T00:00:00.000000Z")
    assert [each.version for each in hub._histories["nodes"]] == [recent]
    with pytest.raises(statuses.RequestFailed, match="too old"):
        hub.watch("nodes", view(), versions[-2])
    hub.watch("nodes", view(), versions[-1])


def test_a_watch_from_before_gets_what_a_watch_got_at_the_time(kept: store.Store) -> None:
    hub = watch.Hub(kept, clocks.FakeClock())
    chosen = dataclasses.replace(view(), selector=selectors.Selector(labels=selectors.parse_labels("app=x")))
    since, live = kept.revision, hub.watch("nodes", chosen, kept.revision)
    for name, app in (("a", "x"), ("b", "y"), ("a", "z"), ("b", "x"), ("b", "x")):
        kept.put("nodes", {"metadata": {"name": name, "labels": {"app": app}}})
    kept.remove("nodes", {"metadata": {"name": "b", "labels": {"app": "x"}}})
    told = live.take()
    kinds = [orjson.loads(line)["type"] for line in told.splitlines()]
    assert kinds == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    assert hub.watch("nodes", chosen, since).take() == told


async def test_a_reader_too_far_behind_is_ended(kept: store.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PENDING_EVENTS", 2)
    hub = watch.Hub(kept, clocks.FakeClock())
    watcher = hub.watch("nodes", view(), kept.revision)
    for name in "abc":
        put(kept, name)
    assert watcher.closed
    assert (await watcher.wait()).count(b"\n") == 2


async def test_each_change_is_encoded_once_for_all_watches(kept: store.Store) -> None:
    rendered: list[int] = []

    def render(stored: objects.Stored) -> bytes:
        rendered.append(stored.version)
        return stored.body

    hub = watch.Hub(kept, clocks.FakeClock())
    seen = watch.View(namespace="", selector=selectors.Selector(), representation="plain", render=render)
    watchers = [hub.watch("nodes", seen, kept.revision) for _ in range(5)]
    put(kept, "a")
    told = [await asyncio.wait_for(watcher.wait(), 60) for watcher in watchers]
    assert len(set(told)) == 1
    assert len(rendered) == 1


def test_a_page_of_a_list_of_an_earlier_process_has_expired(kept: store.Store) -> None:
    for name in "abc":
        put(kept, name)
    first, other = (
        cluster.assemble(kept, clocks.FakeClock()).lister.page(
            resources.NODES, "", requests.parse_list(resources.NODES, {"limit": "1"})
        )
        for _ in range(2)
    )
    state = cluster.assemble(kept, clocks.FakeClock())
    # It has a list of its own, which is not the one that the token continues.
    state.lister.page(resources.NODES, "", requests.parse_list(resources.NODES, {"limit": "2"}))
    for token in (first.token, other.token):
        with pytest.raises(statuses.RequestFailed) as caught:
            state.lister.page(resources.NODES, "", requests.parse_list(resources.NODES, {"continue": token}))
        assert (caught.value.code, caught.value.reason) == (410, "Expired")


def lease(kept: store.Store, name: str, renewed: str) -> None:
    metadata = {"name": name, "namespace": "kube-node-lease", "uid": name}
    kept.put("leases", {"metadata": metadata, "spec": {"renewTime": renewed}})


def taints(kept: store.Store) -> set[tuple[str, str]]:
    node = kept.get("nodes", ("", "n"))
    assert node is not None
    return {(taint["key"].rpartition("/")[2], taint["effect"]) for taint in node.data["spec"].get("taints", ())}


async def test_a_silent_node_becomes_unreachable_and_returns(kept: store.Store) -> None:
    clock = clocks.FakeClock()
    lifecycle = nodes.NodeLifecycle(kept, clock, grace_s=40.0)
    ready = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}
    put(kept, "n", status=ready, spec={"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]})
    lease(kept, "n", "1")
    lifecycle.review()
    assert taints(kept) == set()
    clock.advance(39)
    lease(kept, "n", "2")
    lifecycle.review()
    clock.advance(39)
    lifecycle.review()
    assert taints(kept) == set()
    clock.advance(2)
    lifecycle.review()
    assert taints(kept) == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    node = kept.get("nodes", ("", "n"))
    assert node is not None
    assert {item["status"] for item in node.data["status"]["conditions"]} == {"Unknown"}
    revision = kept.revision
    lifecycle.review()
    assert kept.revision == revision
    put(kept, "n", status=ready, spec=node.data["spec"])
    lifecycle.review()
    assert taints(kept) == set()


async def test_a_cordoned_node_is_tainted(kept: store.Store) -> None:
    lifecycle = nodes.NodeLifecycle(kept, clocks.FakeClock(), grace_s=40.0)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    put(kept, "n", status=ready, spec={"unschedulable": True})
    lifecycle.review()
    assert taints(kept) == {("unschedulable", "NoSchedule")}


async def test_an_unready_node_is_tainted_and_keeps_other_taints(kept: store.Store) -> None:
    lifecycle = nodes.NodeLifecycle(kept, clocks.FakeClock(), grace_s=40.0)
    own = {"key": "team/gpu", "effect": "NoSchedule", "value": "yes"}
    put(kept, "n", status={"conditions": [{"type": "Ready", "status": "False"}]}, spec={"taints": [own]})
    lifecycle.review()
    not_ready = {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}
    assert taints(kept) == {("gpu", "NoSchedule"), *not_ready}
    put(kept, "n", status={"conditions": [{"type": "Ready", "status": "True"}]}, spec={"taints": [own]})
    lifecycle.review()
    assert taints(kept) == {("gpu", "NoSchedule")}


async def test_a_node_without_a_status_stays_as_admitted_until_its_grace_is_over(kept: store.Store) -> None:
    clock = clocks.FakeClock()
    lifecycle = nodes.NodeLifecycle(kept, clock, grace_s=40.0)
    admitted: objects.Object = {"metadata": {"name": "n", "uid": "n"}}
    nodes.admit(admitted)
    nodes.admit(admitted)
    kept.put("nodes", admitted)
    put(kept, "bare")
    clock.advance(1)
    lifecycle.review()
    clock.advance(40)
    lifecycle.review()
    assert taints(kept) == {("not-ready", "NoSchedule")}
    clock.advance(1)
    lifecycle.review()
    assert taints(kept) == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    node = kept.get("nodes", ("", "n"))
    assert node is not None
    told = {item["type"]: item["reason"] for item in node.data["status"]["conditions"]}
    assert told == dict.fromkeys(("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"), "NodeStatusNeverUpdated")
    # One of the same name that comes in its place has its own time.
    kept.remove("nodes", node.data)
    lifecycle.review()
    kept.put("nodes", admitted)
    lifecycle.review()
    assert taints(kept) == {("not-ready", "NoSchedule")}


async def test_a_heartbeat_without_a_lease_is_a_sign_of_life(kept: store.Store) -> None:
    clock = clocks.FakeClock()
    lifecycle = nodes.NodeLifecycle(kept, clock, grace_s=40.0)
    for beat in ("1", "2", "2"):
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
        put(kept, "n", status={"conditions": [{"type": "PIDPressure", "status": "False"}, ready]})
        lifecycle.review()
        clock.advance(39)
    assert taints(kept) == set()
    lifecycle.review()
    assert taints(kept) == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    node = kept.get("nodes", ("", "n"))
    assert node is not None
    told = next(item for item in node.data["status"]["conditions"] if item["type"] == "Ready")
    assert (told["status"], told["lastHeartbeatTime"]) == ("Unknown", "2")


async def test_a_node_is_reviewed_as_soon_as_it_changes(kept: store.Store) -> None:
    lifecycle = nodes.NodeLifecycle(kept, clocks.FakeClock(), grace_s=4000.0)
    running = asyncio.create_task(lifecycle.run())
    await asyncio.sleep(0)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    put(kept, "n", status=ready, spec={"unschedulable": True})
    await waiting.until(lambda: taints(kept) == {("unschedulable", "NoSchedule")})
    assert not running.done()
    running.cancel()
    await asyncio.wait({running})


async def test_events_go_after_an_hour(kept: store.Store) -> None:
    clock = clocks.FakeClock()
    expiry = events.EventExpiry(kept, clock)
    put(kept, "old", "events")
    await expiry.sweep()
    clock.advance(3599)
    await expiry.sweep()
    assert len(kept.select("events")) == 1
    clock.advance(1)
    await expiry.sweep()
    assert len(kept.select("events")) == 0


async def test_the_events_that_were_written_last_stay_where_there_are_too_many(
    kept: store.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "KEPT_MOST", 3)
    expiry = events.EventExpiry(kept, clocks.FakeClock())
    for name in ("a", "b", "c", "d", "e", "a"):
        put(kept, name, "events")
    await expiry.sweep()
    # What was written again is as new as its last write.
    assert [event.data["metadata"]["name"] for event in kept.select("events")] == ["a", "d", "e"]
    await expiry.sweep()
    assert len(kept.select("events")) == 3


async def test_requests_are_answered_while_many_events_go(kept: store.Store) -> None:
    clock = clocks.FakeClock()
    expiry = events.EventExpiry(kept, clock)
    with kept.batch():
        for number in range(1_200):
            put(kept, f"old-{number:04d}", "events")
    await expiry.sweep()
    clock.advance(3600)
    sweep = asyncio.ensure_future(expiry.sweep())
    await asyncio.sleep(0)
    assert len(kept.select("events")) == 700
    # What is written or deleted in between stays, or is gone.
    put(kept, "old-1199", "events")
    kept.remove("events", {"metadata": {"name": "old-1198"}})
    await sweep
    assert [event.data["metadata"]["name"] for event in kept.select("events")] == ["old-1199"]
