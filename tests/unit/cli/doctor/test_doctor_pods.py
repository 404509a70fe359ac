"""Pods that are passed over, not looked at, or that do not end; and remedies that fit where a cluster runs."""

import dataclasses
from importlib import metadata
from typing import Any

import orjson
import pytest

from carico_cli.doctor import agents, findings, installation, kubernetes, places, pods, rights
from carico_core.domain import messages
from carico_core.runtime.kube import api_client
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import instants
from carico_local.api.kubectl import discovery
from carico_local.kubelets.compose import plane
from tests.unit.cli import fake_cluster
from tests.unit.cli.doctor import test_cli_doctor as doctor
from tests.unit.scheduler import objects

NOW_S = doctor.NOW_S
LOCAL = places.Place.of(dataclasses.replace(doctor.AT, name="shop", is_local=True), "carico")
KUBERNETES = places.Place(kind=places.Kind.KUBERNETES)
BY_FLAGS = dataclasses.replace(doctor.AT, kube=api_client.KubeSettings(kubeconfig="my file", context="prod"))
OF_FLAGS = "kubectl --kubeconfig 'my file' --context prod"


def instant(ago_s: float) -> str:
    return instants.format_instant(int((NOW_S - ago_s) * 1e9))


def pod(name: str, ago_s: float, *, app: str = "web", phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    found = objects.pod_object(name, **spec)
    found["metadata"] |= {
        "uid": name, "creationTimestamp": instant(ago_s), "labels": {"app.kubernetes.io/name": app},
    }  # fmt: skip
    found["status"]["phase"] = phase
    return found


async def found_of(*items: dict[str, Any], place: places.Place = KUBERNETES) -> dict[str, findings.Finding]:
    api = doctor.Api({"/api/v1/pods": {"items": list(items)}})
    return {one.what: one for one in await pods.check(api, NOW_S, frozenset({"carico"}), place)}


async def test_ten_thousand_pods_are_read_in_pages() -> None:
    api = doctor.Api({"/api/v1/pods": {"items": [pod(f"w-{number}", 300.0) for number in range(1200)]}})
    found = {one.what: one for one in await pods.check(api, NOW_S, frozenset({"carico"}), KUBERNETES)}
    assert found["waiting Pods"].detail.startswith("1200 for up to 5 min")
    # Three of those that wait, as many of those that run, and, since some wait for long, of those that have ended.
    assert api.pages == 9


async def test_a_class_that_is_passed_over_is_named() -> None:
    later = [pod(f"r-{number}", 60.0, app="small", phase="Running", nodeName="n1") for number in range(5)]
    waits = pod("large-0", 300.0, app="large")
    fairness = (await found_of(waits, *later))["fairness"]
    assert fairness.detail == (
        "class app/default/large: default/large-0 has waited 5 min; 5 later Pods of other classes were placed"
    )
    # Short ones have mostly ended; one that failed before it had a node took no room.
    short = [pod(f"s-{number}", 60.0, app="small", phase="Succeeded", nodeName="n1") for number in range(3)]
    failed = [pod("f-0", 60.0, phase="Failed", nodeName="n1"), pod("f-1", 60.0, phase="Failed")]
    assert "; 5 later Pods" in (await found_of(waits, *short, *failed, later[0]))["fairness"].detail
    assert "fairness" not in await found_of(waits, *short, *failed)
    assert "`carico explain default/large-0`" in fairness.do
    # Four could be chance; Pods of its own class, older ones and more urgent ones do not pass it over.
    assert "fairness" not in await found_of(waits, *later[:4])
    for changed in (
        [pod(f"o-{number}", 900.0, phase="Running", nodeName="n1") for number in range(9)],
        [pod(f"l-{number}", 60.0, app="large", phase="Running", nodeName="n1") for number in range(9)],
        [pod(f"u-{number}", 60.0, phase="Running", nodeName="n1", priority=9) for number in range(9)],
    ):
        assert "fairness" not in await found_of(waits, *changed)
    assert "fairness" not in await found_of(pod("new", 30.0, app="large"), *later)


@pytest.mark.parametrize(
    ("place", "remedy"),
    [
        (LOCAL, "or use `carico up --control-plane real`, which also runs kube-scheduler"),
        (KUBERNETES, "or start that scheduler"),
    ],
)
async def test_a_scheduler_that_does_not_exist_is_named_with_what_is_meant(place: places.Place, remedy: str) -> None:
    lost = pod("lost", 300.0, schedulerName="carcio")
    said = (await found_of(lost, place=place))["schedulers"]
    assert said.detail == "no scheduler 'carcio' (did you mean carico?) has looked at default/lost"
    assert said.do.startswith("create them again with `schedulerName: carico`") and said.do.endswith(remedy)
    noticed = pod("noticed", 300.0, schedulerName="other")
    noticed["status"]["conditions"] = [{"type": "PodScheduled", "status": "False"}]
    assert "schedulers" not in await found_of(noticed, pod("new", 5.0, schedulerName="other"), pod("ours", 300.0))


async def test_pods_whose_deletion_is_overdue_are_named() -> None:
    late = pod("late", 900.0, phase="Running", nodeName="n1")
    late["metadata"]["deletionTimestamp"] = instant(300.0)
    soon = pod("soon", 900.0, phase="Running", nodeName="n1")
    soon["metadata"]["deletionTimestamp"] = instant(20.0)
    assert (await found_of(late, soon))["Pods not ended"].detail == "their deletion is overdue: default/late on n1"
    assert "Pods not ended" not in await found_of(soon)


async def test_a_label_that_was_removed_is_named_with_what_replaces_it() -> None:
    old, owned = (pod(name, 900.0, phase="Running", nodeName="n1") for name in ("old", "owned"))
    for each in (old, owned):
        each["metadata"]["labels"]["carico.dev/baseline"] = "true"
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]
    said = (await found_of(old, owned))["labels"]
    assert said.detail.startswith("carico.dev/baseline has no effect any more: without it, default/old would")
    assert "CARICO_SCHEDULER_BASELINE_NAMESPACES" in said.do
    assert "labels" not in await found_of(owned)


def condition(message: str, status: str = "False", ago_s: float = 0.0) -> dict[str, Any]:
    return {"type": "PodScheduled", "status": status, "message": message, "lastTransitionTime": instant(ago_s)}


async def test_pods_that_wait_are_told_apart_by_their_reason_oldest_first() -> None:
    full = [pod(f"z-{number}", 300.0 - number) for number in range(7)]
    for number, each in enumerate(full):
        each["status"]["conditions"] = [condition(f"0/2 nodes fit: 2 at capacity (node-1: 0.{number} free)")]
    misspelt = pod("a", 90.0, nodeSelector={"kubernetes.io/hostnam": "n1"})
    misspelt["status"]["conditions"] = [condition("0/2 nodes fit: 2 without the required labels (n1: label)")]
    api = doctor.Api(
        {"/api/v1/pods": {"items": [misspelt, *reversed(full), pod("unseen", 80.0, app="db"), pod("new", 5.0)]}}
    )
    nodes = [objects.make_node("n1", labels={"kubernetes.io/hostname": "n1"})]
    found = await pods.check(api, NOW_S, frozenset({"carico"}), LOCAL, nodes)
    first, second, third = [one for one in found if one.what == "waiting Pods"]
    assert first.detail == (
        "7 for up to 5 min: at capacity (default/z-0, default/z-1, default/z-2, default/z-3, default/z-4 and 2 more)"
    )
    assert first.do.endswith("`carico capacity --name shop` shows what limits it")
    assert second.detail == (
        "1 for up to 90.0 s: without the required labels (default/a); default/a can never fit as it is: no node has "
        "the label kubernetes.io/hostnam; did you mean kubernetes.io/hostname?"
    )
    assert second.do.startswith("`carico explain default/a --name shop`")
    assert third.detail == "1 for up to 80.0 s: no scheduler has looked at them (default/unseen)"
    assert "`carico logs scheduler --name shop`" in third.do


async def test_pods_like_one_whose_reason_is_known_wait_for_the_same() -> None:
    """With 10,000 of them, the last one has its condition after minutes."""
    full = [pod(f"web-{number}", 300.0 - number) for number in range(5)]
    full[3]["status"]["conditions"] = [condition("0/2 nodes fit: 2 at capacity (node-1: 0.3 free)")]
    api = doctor.Api({"/api/v1/pods": {"items": [*full, pod("other", 200.0, app="db")]}})
    found = await pods.check(api, NOW_S, frozenset({"carico"}), LOCAL)
    first, second = [one.detail for one in found if one.what == "waiting Pods"]
    assert first.startswith("5 for up to 5 min: at capacity (default/web-0, ")
    assert second == "1 for up to 3 min: no scheduler has looked at them (default/other)"


async def test_pods_that_have_not_started_are_named_where_others_wait_for_their_room() -> None:
    """Of a volume that is missing a kubelet reports only ContainerCreating, which is trouble after minutes."""
    full, holds, starts = pod("full", 90.0), pod("holds", 300.0, nodeName="n1"), pod("starts", 300.0, nodeName="n1")
    full["status"]["conditions"] = [condition("0/1 nodes fit: 1 at capacity (n1: 0.3 free)")]
    creates = {"containerStatuses": [{"name": "m", "state": {"waiting": {"reason": "ContainerCreating"}}}]}
    holds["status"] |= {"conditions": [condition("", "True", ago_s=200.0)], **creates}
    starts["status"] |= {"conditions": [condition("", "True", ago_s=20.0)], **creates}
    found = await found_of(full, holds, starts, place=LOCAL)
    assert "Pods not started" not in found
    said = found["waiting Pods"]
    assert said.detail.endswith("room is reserved for Pods that their nodes have not started: default/holds")
    assert said.do == "`carico explain default/holds --name shop` shows what keeps it from starting"


async def test_pods_that_end_again_and_again_are_named() -> None:
    crashing = pod("crash", 300.0, phase="Running", nodeName="n1")
    crashing["status"]["containerStatuses"] = [
        {
            "name": "m", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 7}},
        }
    ]  # fmt: skip
    said = (await found_of(crashing, pod("well", 300.0, phase="Running", nodeName="n1")))["Pods crashing"]
    assert said.detail == "their containers end again and again: default/crash on n1 (exit code 7, 4 restarts)"
    assert said.level is findings.Level.WARN
    (container,) = crashing["status"]["containerStatuses"]
    container["lastState"]["terminated"] = {"exitCode": 137, "reason": "OOMKilled"}
    said = (await found_of(crashing))["Pods crashing"]
    assert said.detail.endswith("default/crash on n1 (exit code 137, 4 restarts, OOMKilled)")
    # Whoever may write statuses may write this; what ended is not started again.
    container["state"] = {"terminated": {"exitCode": 1, "reason": "CrashLoopBackOff"}}
    crashing["status"]["reason"] = "CrashLoopBackOff"
    assert "Pods crashing" not in await found_of(crashing)


async def test_a_pod_that_its_node_does_not_take_up_is_named() -> None:
    taken, left, new = (pod(name, 300.0, nodeName="n1") for name in ("taken", "left", "new"))
    for each, ago_s in ((taken, 90.0), (left, 90.0), (new, 20.0)):
        each["status"]["conditions"] = [condition("", "True", ago_s)]
    taken["status"]["startTime"] = instant(89.0)
    assert (await found_of(taken, left, new))["Pods not started"].detail == (
        "their nodes cannot start them: default/left on n1 (its node has not taken it up for 90.0 s)"
    )


async def test_what_a_node_says_of_a_pod_that_it_cannot_start_is_quoted() -> None:
    bare = pod("bare", 300.0, nodeName="n1")
    message = "an emulated node cannot run this Pod: container 'web' has no command (emulated nodes pull no images)"
    waits = {"reason": "CreateContainerConfigError", "message": message}
    bare["status"]["containerStatuses"] = [{"name": "web", "state": {"waiting": waits}}]
    said = (await found_of(bare, place=LOCAL))["Pods not started"]
    assert said.detail.endswith(
        "default/bare on n1 (CreateContainerConfigError: an emulated node cannot run this Pod: container 'web' has no "
        "command)"
    )
    assert "fix its image (emulated nodes pull none: they need a command), key or volume, or delete it" in said.do
    assert "emulated" not in (await found_of(bare))["Pods not started"].do


async def test_services_of_different_versions_are_named() -> None:
    def stats(name: str, version: str) -> dict[str, Any]:
        return {"name": name, "id": "A1", "version": version, "endpoints": []}

    def bus(version: str) -> doctor.Bus:
        both = {"carico-scheduler": [stats("carico-scheduler", version)]}
        return doctor.Bus([], {**both, "carico-aggregator": [stats("carico-aggregator", HERE)]})

    (same,) = [one for one in await doctor.listen(bus(HERE)) if one.what == "versions"]
    assert (same.level, same.detail) == (findings.Level.OK, HERE)
    (differ,) = [one for one in await doctor.listen(bus("9.9.9")) if one.what == "versions"]
    assert differ.level is findings.Level.WARN
    assert f"{HERE}: this command, carico-aggregator A1; 9.9.9: carico-scheduler A1" in differ.detail


async def test_two_schedulers_that_lead_on_one_bus_are_reported() -> None:
    def bus(*instances: str) -> doctor.Bus:
        answers = [{"name": "carico-scheduler", "id": each, "version": HERE, "endpoints": []} for each in instances]
        return doctor.Bus([], {"carico-scheduler": answers})

    def leaders(found: list[findings.Finding]) -> list[findings.Finding]:
        return [one for one in found if one.what == "scheduler" and "lead on this bus" in one.detail]

    assert leaders(await doctor.listen(bus("A1"))) == []
    (warned,) = leaders(await doctor.listen(bus("A1", "B2")))
    assert warned.level is findings.Level.WARN
    assert warned.detail.startswith("2 lead on this bus") and "CARICO_LEADER_NAME" in warned.detail
    assert "CARICO_SCHEDULER_NAMES" in warned.do


HERE = metadata.version("carico-cli")


def test_a_node_that_learns_nothing_is_named() -> None:
    def stored(node: str, **changed: Any) -> tuple[str, bytes]:
        said = fake_cluster.advertisement(node, at_ns=1, **changed)
        return subjects.capacity(node), wire.encode_advertisement(said)

    def state(pods_of: int, rows: int = 90) -> bytes:
        history = {"columns": ["pods"], "rows": [[pods_of]] * rows}
        return orjson.dumps({**fake_cluster.STATE, "history": history})

    warming = messages.Mode.WARMING
    kept = [stored("n1", mode=warming), stored("n2"), stored("n3", mode=warming), stored("n4", mode=warming, pods=0)]
    answers = {"n1": state(3), "n2": state(3), "n3": state(3, rows=20), "n4": state(0), "n5": b"?"}
    (said,) = agents.learning(answers, kept, place=LOCAL)
    assert said.detail == "nothing is measured on n1, although Pods run there for 60 s"
    assert said.do.startswith("`carico logs agent/n1 --name shop`")
    assert agents.learning({"n1": b"?"}, kept, place=LOCAL) == []


def test_no_node_that_advertises_is_a_failure() -> None:
    seen = agents.look([], ["n1", "n2"], newest={}, lease_s=10.0, now_s=NOW_S)
    (said,) = agents.report(seen, lease_s=10.0, place=LOCAL)
    assert (said.level, said.detail) == (
        findings.Level.FAIL, "none of 2 nodes advertises: no Pod can be placed",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "is_local", "logs"),
    [
        ("nats://127.0.0.1:4222", True, ("carico logs agent/n1 --name x", "carico logs nats --name x")),
        ("nats://nats-server:4222", False, ("docker compose logs node", "docker compose logs nats-server")),
        (
            "tls://nats.example.com:4222", False,
            ("kubectl -n carico logs daemonset/carico-agent", "kubectl -n carico logs statefulset/carico-nats"),
        ),
    ],
)  # fmt: skip
def test_a_remedy_fits_where_the_cluster_runs(url: str, is_local: bool, logs: tuple[str, str]) -> None:
    bus = dataclasses.replace(doctor.AT.bus, url=url)
    place = places.Place.of(dataclasses.replace(doctor.AT, bus=bus, is_local=is_local), "carico")
    assert (place.log("agent", "n1"), place.log("nats")) == tuple(f"`{each}`" for each in logs)
    for remedy in (place.restart, place.reach_bus):
        assert ("docker compose" in remedy) is (place.kind is places.Kind.COMPOSE)


@pytest.mark.parametrize(
    ("place", "kubectl", "explain"),
    [
        (LOCAL, "carico use shop kubectl", "carico explain POD --name shop"),
        (
            places.Place(kind=places.Kind.COMPOSE), "KUBECONFIG=compose/kubeconfig/host.yaml kubectl",
            "docker compose run --rm carico explain POD",
        ),
        (KUBERNETES, "kubectl", "carico explain POD"),
        (
            places.Place.of(dataclasses.replace(doctor.AT, is_by_flag=True), "carico"), "kubectl",
            f"carico explain POD --nats-url {doctor.AT.url}",
        ),
        (places.Place.of(BY_FLAGS, "carico"), OF_FLAGS, "carico explain POD --kubeconfig 'my file' --context prod"),
    ],
)  # fmt: skip
async def test_what_changes_a_pod_names_its_cluster(place: places.Place, kubectl: str, explain: str) -> None:
    late = pod("late", 900.0, phase="Running", nodeName="n1")
    late["metadata"]["deletionTimestamp"] = instant(300.0)
    crashing = pod("crashing", 300.0, phase="Running", nodeName="n1")
    crashing["status"]["containerStatuses"] = [
        {
            "name": "a", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
        }
    ]  # fmt: skip
    stuck = pod("stuck", 300.0, nodeName="n1")
    stuck["status"]["containerStatuses"] = [{"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    found = await found_of(late, crashing, stuck, place=place)
    assert f"`{kubectl} delete pod POD --force`" in found["Pods not ended"].do
    assert f"`{kubectl} logs POD --previous`" in found["Pods crashing"].do
    assert f"`{explain}`" in found["Pods crashing"].do
    assert f"`{kubectl} describe pod`" in found["Pods not started"].do


def test_what_concerns_the_services_names_their_cluster() -> None:
    place = places.Place.of(BY_FLAGS, "own")
    assert place.log("nats") == f"`{OF_FLAGS} -n own logs statefulset/carico-nats`"
    assert place.reach_bus.endswith(f"`{OF_FLAGS} -n own port-forward service/carico-nats 4222`")
    assert place.restart == (
        f"`{OF_FLAGS} apply -k deploy/k8s/overlays/...` of one version, then `{OF_FLAGS} rollout status`"
    )


async def test_compose_is_known_by_its_api_also_from_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = places.Place.of(doctor.AT, "carico")
    assert elsewhere.kind is places.Kind.KUBERNETES
    assert elsewhere.knowing(discovery.VERSION["gitVersion"]).kind is places.Kind.COMPOSE
    assert elsewhere.knowing("v1.36.2+k3s1") == elsewhere
    assert LOCAL.knowing(discovery.VERSION["gitVersion"]) == LOCAL
    # With a real control plane, its kubelets report their provider.
    own = plane.node("172.18.0.7", name="node-3").provider_id
    assert elsewhere.knowing("v1.36.2", ["", own]).kind is places.Kind.COMPOSE
    assert elsewhere.knowing("v1.36.2", ["", "kind://docker/kind/kind-worker"]) == elsewhere
    assert LOCAL.knowing("v1.36.2", [own]) == LOCAL

    async def installed(*_: object) -> list[findings.Finding]:
        raise AssertionError("compose installs nothing into Kubernetes")

    monkeypatch.setattr(installation, "check", installed)
    monkeypatch.setattr(rights, "check", installed)
    real = {"metadata": {"name": "node-3"}, "spec": {"providerID": own}, "status": {}}
    for version, nodes in ((discovery.VERSION, []), ({"gitVersion": "v1.36.2"}, [real])):
        answers = {"/version": version, "/api/v1/nodes": {"items": nodes}}
        seen = await kubernetes.check(doctor.Api(answers), elsewhere, now_s=NOW_S)
        assert seen.place.kind is places.Kind.COMPOSE
    # Nor does a cluster of this machine, also with a real control plane.
    await kubernetes.check(doctor.Api(answers), LOCAL, now_s=NOW_S)
