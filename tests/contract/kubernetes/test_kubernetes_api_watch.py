"""Watches: what they start with, what they tell, how they end."""

import time
from typing import Any

import pytest

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import KubeApi


def now(api: KubeApi, namespace: str) -> str:
    version: str = api.request("GET", shapes.pods(namespace)).body["metadata"]["resourceVersion"]
    return version


def seen(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def label(api: KubeApi, namespace: str, name: str, labels: dict[str, str | None]) -> None:
    answer = api.request(
        "PATCH", shapes.pods(namespace, name), {"metadata": {"labels": labels}}, content_type=shapes.MERGE
    )
    assert answer.code == 200


def test_a_watch_reports_each_change_once_and_in_order(kube_api: KubeApi, namespace: str) -> None:
    with kube_api.watch(shapes.pods(namespace), resourceVersion=now(kube_api, namespace)) as events:
        kube_api.request("POST", shapes.pods(namespace), shapes.pod())
        label(kube_api, namespace, "p", {"a": "1"})
        kube_api.request("DELETE", shapes.pods(namespace, "p"), gracePeriodSeconds=0)
        told = [next(events) for _ in range(4)]
    # That a Pod is to go is written before it goes, even where it goes at once.
    assert [seen(event) for event in told] == [("ADDED", "p"), ("MODIFIED", "p"), ("MODIFIED", "p"), ("DELETED", "p")]
    assert [event["object"]["metadata"].get("deletionGracePeriodSeconds") for event in told] == [None, None, 0, 0]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in told]
    assert versions == sorted(set(versions))
    assert told[0]["object"]["kind"] == "Pod"


def test_a_watch_from_nothing_starts_with_what_is_there(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod("a"))
    with kube_api.watch(shapes.pods(namespace)) as events:
        assert seen(next(events)) == ("ADDED", "a")
        kube_api.request("POST", shapes.pods(namespace), shapes.pod("b"))
        assert seen(next(events)) == ("ADDED", "b")


def test_a_watch_resumes_behind_a_version(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod("a"))
    since = now(kube_api, namespace)
    kube_api.request("POST", shapes.pods(namespace), shapes.pod("b"))
    with kube_api.watch(shapes.pods(namespace), resourceVersion=since) as events:
        assert seen(next(events)) == ("ADDED", "b")


def test_leaving_a_selection_looks_like_a_delete(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod(labels={"keep": "1"}))
    with kube_api.watch(
        shapes.pods(namespace), resourceVersion=now(kube_api, namespace), labelSelector="keep"
    ) as events:
        label(kube_api, namespace, "p", {"keep": None})
        label(kube_api, namespace, "p", {"keep": "2"})
        assert [seen(next(events)) for _ in range(2)] == [("DELETED", "p"), ("ADDED", "p")]


def test_a_bound_pod_enters_its_nodes_selection(kube_api: KubeApi, namespace: str, node: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    query = {"fieldSelector": f"spec.nodeName={node}", "resourceVersion": now(kube_api, namespace)}
    with kube_api.watch("/api/v1/pods", **query) as events:
        kube_api.request("POST", shapes.pods(namespace, "p", "binding"), shapes.binding("p", node))
        assert seen(next(events)) == ("ADDED", "p")


def test_a_watch_ends_at_its_timeout_after_a_bookmark(kube_api: KubeApi, namespace: str) -> None:
    told: list[Any] = []
    # Where the Pod was made so late that the watch had ended, a longer one.
    for timeout_s in (4, 20):
        query: dict[str, Any] = {"timeoutSeconds": timeout_s, "allowWatchBookmarks": "true"}
        with kube_api.watch(shapes.pods(namespace), **query, resourceVersion=now(kube_api, namespace)) as events:
            begun_s = time.monotonic()
            # Once the watch has begun: of what it began with a real one sends no bookmark.
            name = f"p{timeout_s}"
            kube_api.request("POST", shapes.pods(namespace), shapes.pod(name))
            in_time = time.monotonic() - begun_s < timeout_s / 4
            told = list(events)
        if in_time:
            break
    assert seen(told[0]) == ("ADDED", name)
    marks = [event for event in told if event["type"] == "BOOKMARK"]
    assert marks
    assert int(marks[-1]["object"]["metadata"]["resourceVersion"]) >= int(
        told[0]["object"]["metadata"]["resourceVersion"]
    )


def test_initial_events_end_with_a_marked_bookmark(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    query = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    with kube_api.watch(shapes.pods(namespace), **query) as events:
        assert seen(next(events)) == ("ADDED", "p")
        mark = next(event for event in events if event["type"] == "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_version_too_old_is_gone(kube_api: KubeApi, namespace: str) -> None:
    # An API server that has run for long has forgotten the first changes; a new start makes one forget at once.
    if kube_api.kill_and_restart is not None:
        kube_api.kill_and_restart()
    with kube_api.watch(shapes.pods(namespace), resourceVersion="1") as events:
        told = next(events)
    # Reported inside the stream or by the status of the answer: clients must take both.
    failure = told["object"] if told.get("type") == "ERROR" else told
    assert (failure["code"], failure["reason"]) == (410, "Expired")


def test_a_killed_control_plane_forgets_nothing(kube_api: KubeApi, namespace: str) -> None:
    if kube_api.kill_and_restart is None:
        pytest.skip(f"the control plane {kube_api.kind} is not ours to kill")
    for number in range(20):
        kube_api.request("POST", shapes.pods(namespace), shapes.pod(f"p{number}"))
    kube_api.request("DELETE", shapes.pods(namespace, "p0"), gracePeriodSeconds=0)
    before = kube_api.request("GET", shapes.pods(namespace)).body
    kube_api.kill_and_restart()
    kube_api.pool.clear()
    after = kube_api.request("GET", shapes.pods(namespace)).body
    assert after["items"] == before["items"]
    assert int(after["metadata"]["resourceVersion"]) >= int(before["metadata"]["resourceVersion"])
    label(kube_api, namespace, "p1", {"a": "1"})
    changed = kube_api.request("GET", shapes.pods(namespace, "p1")).body
    assert int(changed["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
