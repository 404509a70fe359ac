"""What CARICO relies on at the Kubernetes API: the in-memory one and the embedded one keep the same contract."""

import asyncio
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects
from carico_core.wire.kubernetes import lease as kubernetes_lease
from tests.contract import kube_site
from tests.contract.kubernetes import shapes


async def test_a_bound_pod_names_its_node(site: kube_site.Site) -> None:
    pod = await site.create("a")
    await site.bind(pod)
    bound = await site.client.request("GET", f"{site.pods}/a")
    assert bound["spec"]["nodeName"] == site.namespace
    assert ("PodScheduled", "True") in {(item["type"], item["status"]) for item in bound["status"]["conditions"]}


async def test_a_pod_is_bound_once(site: kube_site.Site) -> None:
    pod = await site.create("a")
    await site.bind(pod)
    with pytest.raises(errors.Conflict):
        await site.bind(pod, node="another")
    assert (await site.client.request("GET", f"{site.pods}/a"))["spec"]["nodeName"] == site.namespace


async def test_of_two_binds_at_once_one_wins(site: kube_site.Site) -> None:
    pod = await site.create("a")
    outcomes = await asyncio.gather(*(site.bind(pod, node=f"n{index}") for index in range(8)), return_exceptions=True)
    assert outcomes.count(None) == 1
    assert {type(outcome) for outcome in outcomes if outcome is not None} == {errors.Conflict}


async def test_another_pod_of_the_same_name_is_not_bound(site: kube_site.Site) -> None:
    first = await site.create("a")
    await site.delete("a")
    second = await site.create("a")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    with pytest.raises(errors.Conflict):
        await site.bind(second, uid=first["metadata"]["uid"])
    assert not (await site.client.request("GET", f"{site.pods}/a"))["spec"].get("nodeName")


async def test_a_status_is_merged_and_guarded_by_uid(site: kube_site.Site) -> None:
    pod = await site.create("a")
    uid = pod["metadata"]["uid"]
    for kind in ("Ready", "Initialized"):
        status = {"phase": "Running", "conditions": [{"type": kind, "status": "True"}]}
        await api_actions.patch_pod_status(site.client, namespace=site.namespace, name="a", uid=uid, status=status)
    found = (await site.client.request("GET", f"{site.pods}/a"))["status"]
    assert found["phase"] == "Running"
    assert {"Ready", "Initialized"} <= {item["type"] for item in found["conditions"]}
    with pytest.raises(errors.Conflict):
        await api_actions.patch_pod_status(
            site.client, namespace=site.namespace, name="a", uid="another", status={"phase": "Failed"}
        )


async def test_a_status_can_assume_that_the_pod_is_not_bound(site: kube_site.Site) -> None:
    pod = await site.create("a")

    async def refuse(reason: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "full"}
        await api_actions.patch_pod_status(
            site.client, namespace=site.namespace, name="a", uid=pod["metadata"]["uid"],
            status={"conditions": [condition]}, resource_version=pod["metadata"]["resourceVersion"],
        )  # fmt: skip

    async def scheduled() -> tuple[str, str]:
        conditions = (await site.client.request("GET", f"{site.pods}/a"))["status"]["conditions"]
        (found,) = (each for each in conditions if each["type"] == "PodScheduled")
        return found["status"], found.get("reason", "")

    await refuse("Unschedulable")
    assert await scheduled() == ("False", "Unschedulable")
    await site.bind(pod)
    with pytest.raises(errors.Conflict):
        await refuse("Unschedulable")
    assert (await scheduled())[0] == "True"


async def test_a_node_is_patched(site: kube_site.Site) -> None:
    name = f"node-{site.namespace}"
    await site.client.request("POST", "/api/v1/nodes", body={"metadata": {"name": name}})
    await api_actions.patch_node_status(site.client, node=name, status={"capacity": {"cpu": "4"}})
    await api_actions.patch_node(site.client, node=name, patch={"metadata": {"labels": {"x": "1"}}})
    found = await site.client.request("GET", f"/api/v1/nodes/{name}")
    assert found["status"]["capacity"] == {"cpu": "4"}
    assert found["metadata"]["labels"]["x"] == "1"


async def test_refusals_have_their_class(site: kube_site.Site) -> None:
    await site.create("a")
    with pytest.raises(errors.NotFound):
        await site.client.request("GET", f"{site.pods}/none")
    with pytest.raises(errors.NotFound):
        await site.delete("none")
    with pytest.raises(errors.Conflict) as caught:
        await site.create("a")
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")
    with pytest.raises(errors.Invalid):
        await site.client.request("POST", site.pods, body={"spec": shapes.pod()["spec"]})


async def test_one_of_two_writers_of_a_version_wins(site: kube_site.Site) -> None:
    pod = await site.create("a")
    first = pod | {"metadata": pod["metadata"] | {"labels": {"by": "first"}}}
    await site.client.request("PUT", f"{site.pods}/a", body=first)
    with pytest.raises(errors.Conflict):
        await site.client.request("PUT", f"{site.pods}/a", body=pod)


async def test_a_lease_is_taken_once_and_renewed_by_its_holder(site: kube_site.Site) -> None:
    assert await api_actions.get_lease(site.client, namespace=site.namespace, name="leader") is None
    wanted = kubernetes_lease.Lease(
        namespace=site.namespace,
        name="leader",
        holder="one",
        duration_s=15,
        acquired_at_ns=1_700_000_000_123_456_000,
        renewed_at_ns=1_700_000_001_123_456_000,
    )
    made = await api_actions.create_lease(site.client, wanted)
    assert (made.holder, made.renewed_at_ns, made.duration_s) == ("one", wanted.renewed_at_ns, 15)
    with pytest.raises(errors.Conflict):
        await api_actions.create_lease(site.client, wanted)
    renewed = await api_actions.update_lease(site.client, replaced(made, holder="two"))
    with pytest.raises(errors.Conflict):
        await api_actions.update_lease(site.client, replaced(made, holder="three"))
    assert await api_actions.get_lease(site.client, namespace=site.namespace, name="leader") == renewed
    assert renewed.holder == "two"


def replaced(lease: kubernetes_lease.Lease, *, holder: str) -> kubernetes_lease.Lease:
    return kubernetes_lease.Lease(
        namespace=lease.namespace,
        name=lease.name,
        holder=holder,
        duration_s=lease.duration_s,
        acquired_at_ns=lease.acquired_at_ns,
        renewed_at_ns=lease.renewed_at_ns + 1000,
        resource_version=lease.resource_version,
    )


async def test_an_event_again_is_counted_up(site: kube_site.Site) -> None:
    await site.create("a")
    pod = await parsed(site, "a")
    recorder = api_actions.EventRecorder(
        site.client, clock=clocks.SystemClock(), controller="carico.dev/scheduler", instance="test"
    )
    for _ in range(3):
        await recorder.record(pod, reason="FailedScheduling", action="Scheduling", note="full", warning=True)
    await recorder.record(pod, reason="Scheduled", action="Binding", note="placed")
    path = f"/apis/events.k8s.io/v1/namespaces/{site.namespace}/events"
    found = (await site.client.request("GET", path))["items"]
    counts = {item["reason"]: (item.get("series") or {}).get("count", 1) for item in found}
    assert counts == {"FailedScheduling": 3, "Scheduled": 1}
    assert all(item["regarding"]["uid"] == pod.uid for item in found)
    # An Event that expired meanwhile is created again.
    for item in found:
        await site.client.request("DELETE", f"{path}/{item['metadata']['name']}")
    await recorder.record(pod, reason="FailedScheduling", action="Scheduling", note="full", warning=True)
    assert len((await site.client.request("GET", path))["items"]) == 1


async def parsed(site: kube_site.Site, name: str) -> Any:
    return api_objects.parse_pod(await site.client.request("GET", f"{site.pods}/{name}"))


def test_every_api_is_under_contract() -> None:
    assert sorted(kube_site.SITES) == ["embedded", "memory", "real"]
