"""Preemption at a real kube-apiserver: priorities and budgets of Kubernetes' own controllers, and what is written."""

import asyncio
import contextlib
import pathlib
import subprocess
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_local.control_plane import standalone
from tests.integration import extender_site
from tests.tools import service_process, waiting

NODE = "preemption-0"
FINALIZER = "carico.dev/test"
CLASSES = {"preemption-low": 1, "preemption-high": 1000}
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def start(site: extender_site.Site, *flags: str) -> "subprocess.Popen[bytes]":
    """A scheduler without other candidates."""
    options = [
        "--bus-url", site.nats.url, "--kubeconfig", str(site.plane.kubeconfig), "--http-port", "-1",
        "--no-leader-election", "--event-after-s", "0.2", *flags,
    ]  # fmt: skip
    return service_process.start(site.root / "scheduler.log", "carico_scheduler", *options)


def pod(name: str, kind: str, **metadata: Any) -> dict[str, Any]:
    """A Pod that its node ends at once."""
    spec = {
        "schedulerName": "carico", "nodeSelector": {"site": "preemption"}, "terminationGracePeriodSeconds": 0,
        "priorityClassName": f"preemption-{kind}", "containers": [{"name": "main", "image": "pi"}],
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


async def create_classes(site: extender_site.Site, stack: contextlib.AsyncExitStack) -> None:
    """Create the PriorityClasses; they belong to no namespace, so the stack deletes them."""
    for name, value in CLASSES.items():
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        await site.client.request("POST", PRIORITY_CLASSES, body={**kind, "value": value})
        stack.push_async_callback(site.client.request, "DELETE", f"{PRIORITY_CLASSES}/{name}")


async def test_a_victim_that_no_budget_guards_gives_way(
    real_control_plane: standalone.Standalone, tmp_path: pathlib.Path
) -> None:
    async with (
        extender_site.running(real_control_plane, tmp_path, "preemption") as site,
        contextlib.AsyncExitStack() as stack,
    ):
        await create_classes(site, stack)
        budget = {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guard"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }  # fmt: skip
        await site.client.request(
            "POST", f"/apis/policy/v1/namespaces/{site.namespace}/poddisruptionbudgets", body=budget
        )
        await site.create_node(NODE, 2.2)
        scheduler = start(site)
        stack.callback(service_process.end, scheduler)
        # The free one is the older, so that without the budget the other would go.
        await site.client.request("POST", site.pods_path, body=pod("free", "low", finalizers=[FINALIZER]))
        await site.until_bound(1)
        await site.client.request("POST", site.pods_path, body=pod("guarded", "low", labels={"app": "guarded"}))
        await site.until_bound(2)
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in await site.pods()}
        site.capacities[NODE], site.covered[NODE] = 0.2, frozenset(uids.values())
        await site.client.request("POST", site.pods_path, body=pod("high", "high"))

        async def seen(name: str) -> dict[str, Any]:
            with contextlib.suppress(errors.NotFound):
                found: dict[str, Any] = await site.client.request("GET", f"{site.pods_path}/{name}")
                return found
            return {}

        leaving = await waiting.answered(lambda: seen("free"), lambda found: found["metadata"].get("deletionTimestamp"))
        conditions = {each["type"]: each for each in leaving["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        assert (await seen("high"))["status"]["nominatedNodeName"] == NODE
        assert "deletionTimestamp" not in (await seen("guarded"))["metadata"]
        await site.client.request(
            "PATCH", f"{site.pods_path}/free", body={"metadata": {"finalizers": None}},
            content_type=api_actions.MERGE_PATCH,
        )  # fmt: skip
        await waiting.answered(lambda: seen("free"), lambda found: not found)
        site.capacities[NODE], site.covered[NODE] = 1.2, frozenset({uids["guarded"]})
        bound = await waiting.answered(site.bound, lambda found: "high" in found)
        assert bound == {"guarded": NODE, "high": NODE}
        note = await site.until_told("free", "Preempted")
        assert note == f"Preempted by pod {(await seen('high'))['metadata']['uid']} on node {NODE}"


async def test_opportunistic_pods_leave_a_node_that_fills(
    real_control_plane: standalone.Standalone, tmp_path: pathlib.Path
) -> None:
    async with (
        extender_site.running(real_control_plane, tmp_path, "opportunistic") as site,
        contextlib.AsyncExitStack() as stack,
    ):
        await create_classes(site, stack)
        site.headroom_cores[NODE] = 4.0
        await site.create_node(NODE, 4.0)
        scheduler = start(site, "--opportunistic", "preemption-low")
        stack.callback(service_process.end, scheduler)
        for count, (name, kind) in enumerate((("own", "high"), ("old", "low"), ("young", "low")), 1):
            made = pod(name, kind, finalizers=[FINALIZER])
            made["spec"]["nodeSelector"] = {"site": site.namespace}
            await site.client.request("POST", site.pods_path, body=made)
            await site.until_bound(count)
            # Times of creation are whole seconds, and which Pod is the younger one decides.
            await asyncio.sleep(1.1)
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in await site.pods()}
        # Its other load has grown: half of a Pod more than the ceiling allows.
        site.covered[NODE], site.headroom_cores[NODE] = frozenset(uids.values()), -0.5

        async def leaving() -> dict[str, Any]:
            return {
                each["metadata"]["name"]: each
                for each in await site.pods()
                if each["metadata"].get("deletionTimestamp")
            }

        found = await waiting.answered(leaving, lambda seen: bool(seen))
        assert set(found) == {"young"}
        conditions = {each["type"]: each for each in found["young"]["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        await site.until_told("young", f"Evicted: {NODE} is full")
        for name in uids:
            patch = {"metadata": {"finalizers": None}}
            await site.client.request(
                "PATCH", f"{site.pods_path}/{name}", body=patch, content_type=api_actions.MERGE_PATCH
            )
