"""What CARICO relies on at the Kubernetes API: the in-memory one and the embedded one keep the same contract."""

import asyncio
import contextlib
import itertools
import random
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime import clock as clocks
from carico_core.runtime import kube, kube_actions, kube_list, kube_watch, memory_kube
from carico_core.wire import kubernetes, kubernetes_lease
from tests.contract.kubernetes import control_planes, shapes
from tests.tools import waiting

PODS = "/api/v1/pods"
OPTIONS = kube_watch.Options(watch_s=20.0, backoff_first_s=0.02, backoff_most_s=0.2)
PATIENCE_S = 20.0
_NUMBERS = itertools.count(1)

Client = kube.KubeClient | memory_kube.MemoryKube


class Site:
    """One API under test."""

    def __init__(self, client: Client, *, restart: Callable[[], Awaitable[None]]) -> None:
        self.client = client
        # Breaks every connection off; the API is away for a moment and comes back with all it knew.
        self.restart = restart
        self.namespace = f"contract-{next(_NUMBERS)}"
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"

    async def create(self, name: str, **spec: Any) -> dict[str, Any]:
        """A new Pod."""
        made: dict[str, Any] = await self.client.request("POST", self.pods, body=shapes.pod(name, **spec))
        return made

    async def delete(self, name: str) -> None:
        """The Pod is gone at once."""
        body = {"gracePeriodSeconds": 0}
        await self.client.request("DELETE", f"{self.pods}/{name}", body=body)

    def mirror(self, api: kube_list.Api | None = None) -> AsyncGenerator[kube_watch.MirrorEvent, None]:
        """A mirror of the namespace's Pods."""
        return kube_watch.mirror(
            api or self.client,
            self.pods,
            params={},
            clock=clocks.SystemClock(),
            rng=random.Random(1),
            options=OPTIONS,
        )


class Copy:
    """A reader of a mirror: keeps what it is told, and notes how."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.told: list[str] = []
        self._moved = asyncio.Event()

    async def follow(self, events: AsyncGenerator[kube_watch.MirrorEvent, None]) -> None:
        """Never returns."""
        async with contextlib.aclosing(events):
            async for event in events:
                self._take(event)
                self._moved.set()

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Returns once `wanted` holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not wanted():
                self._moved.clear()
                await self._moved.wait()

    def versions(self) -> dict[str, str]:
        """The state as name -> resourceVersion."""
        return {name: obj["metadata"]["resourceVersion"] for name, obj in self.objects.items()}

    def _take(self, event: kube_watch.MirrorEvent) -> None:
        match event:
            case kube_watch.Listed(objects=objects):
                self.told.append("LISTED")
                self.objects = {obj["metadata"]["name"]: obj for obj in objects}
            case kube_watch.Changed(type="DELETED", object=obj):
                self.told.append(f"DELETED {obj['metadata']['name']}")
                self.objects.pop(obj["metadata"]["name"])
            case kube_watch.Changed(type=kind, object=obj):
                self.told.append(f"{kind} {obj['metadata']['name']}")
                self.objects[obj["metadata"]["name"]] = obj
            case kube_watch.Away():
                self.told.append("AWAY")


@contextlib.asynccontextmanager
async def following(
    site: Site, events: AsyncGenerator[kube_watch.MirrorEvent, None] | None = None
) -> AsyncIterator[Copy]:
    """A copy that has listed once."""
    copy = Copy()
    task = asyncio.create_task(copy.follow(events or site.mirror()))
    try:
        await copy.until(lambda: bool(copy.told))
        yield copy
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[control_planes.KubeApi]:
    with control_planes.embedded(tmp_path_factory.mktemp("kube-client")) as api:
        yield api
        api.pool.clear()


@contextlib.asynccontextmanager
async def memory_site(_: pytest.FixtureRequest) -> AsyncIterator[Site]:
    client = memory_kube.MemoryKube(clock=clocks.SystemClock())

    async def restart() -> None:
        client.go_away()
        await asyncio.sleep(0.3)
        client.come_back()

    yield Site(client, restart=restart)
    await client.close()


@contextlib.asynccontextmanager
async def embedded_site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    async with api_site(request.getfixturevalue("embedded")) as site:
        yield site


@contextlib.asynccontextmanager
async def real_site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    plane = request.getfixturevalue("real_control_plane")
    async with api_site(control_planes.real(plane, None)) as site:
        yield site


@contextlib.asynccontextmanager
async def api_site(api: control_planes.KubeApi) -> AsyncIterator[Site]:
    settings = kube.KubeSettings(kubeconfig=str(api.kubeconfig))
    client = await kube.connect(settings, clock=clocks.SystemClock(), user_agent="contract")
    assert api.kill_and_restart is not None
    kill = api.kill_and_restart

    async def restart() -> None:
        await asyncio.to_thread(kill)

    site = Site(client, restart=restart)
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": site.namespace}})
    # A real API refuses Pods until its controllers have made the namespace's account.
    async with asyncio.timeout(PATIENCE_S):
        while await _is_absent(client, f"/api/v1/namespaces/{site.namespace}/serviceaccounts/default"):
            await asyncio.sleep(0.05)
    yield site
    await client.close()


async def _is_absent(client: kube.KubeClient, path: str) -> bool:
    try:
        await client.request("GET", path)
    except errors.NotFound:
        return True
    return False


SITES = {"memory": memory_site, "embedded": embedded_site, "real": real_site}


@pytest.fixture(params=SITES)
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    async with SITES[request.param](request) as made:
        yield made


async def test_a_mirror_lists_then_tells_each_change(site: Site) -> None:
    await site.create("a")
    async with following(site) as copy:
        await site.create("b")
        await site.client.request(
            "PATCH", f"{site.pods}/a", body={"metadata": {"labels": {"x": "1"}}}, content_type=shapes.MERGE
        )
        await site.delete("b")
        await copy.until(lambda: "DELETED b" in copy.told)
    # A real API tells first that the Pod is to go.
    assert [told for told in copy.told if told != "MODIFIED b"] == ["LISTED", "ADDED b", "MODIFIED a", "DELETED b"]
    assert copy.objects["a"]["metadata"]["labels"] == {"x": "1"}


async def test_a_list_of_many_pages_is_whole(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_list, "PAGE_LIMIT", 3)
    for number in range(8):
        await site.create(f"p{number}")
    listed = await kube_list.list_all(site.client, site.pods, params={})
    assert sorted(obj["metadata"]["name"] for obj in listed.objects) == [f"p{number}" for number in range(8)]
    async with following(site) as copy:
        await site.create("later")
        await copy.until(lambda: len(copy.objects) == 9)
    assert copy.told == ["LISTED", "ADDED later"]


class Expiring:
    """A client to which the snapshot of its pages expires after the first."""

    def __init__(self, client: Client) -> None:
        self.stream = client.stream
        self._client = client

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> Any:
        if "continue" in (params or {}):
            raise errors.Gone(status=410, reason="Expired", message="too old", request=path)
        return await self._client.request(method, path, params=params, timeout_s=timeout_s)


@pytest.mark.parametrize("count", [4, 200])
async def test_a_list_whose_pages_expire_is_whole(site: Site, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(kube_list, "PAGE_LIMIT", 3)
    names = [f"p{number}" for number in range(count)]
    for some in range(0, count, 50):
        await asyncio.gather(*(site.create(name) for name in names[some : some + 50]))
    listed = await kube_list.list_all(Expiring(site.client), site.pods, params={})
    assert sorted(obj["metadata"]["name"] for obj in listed.objects) == sorted(names)
    whole = await site.client.request("GET", site.pods)
    assert listed.objects == whole["items"]


async def test_selectors_limit_a_mirror(site: Site) -> None:
    pod = await site.create("a")
    await site.create("b")
    events = site.client.mirror(PODS, params={"fieldSelector": f"spec.nodeName={site.namespace}"}, options=OPTIONS)
    async with following(site, events) as copy:
        assert copy.objects == {}
        await bind(site, pod)
        await copy.until(lambda: bool(copy.objects))
    assert copy.told == ["LISTED", "ADDED a"]


class Tampered:
    """A client whose first watches go wrong in one way."""

    def __init__(self, client: Client, *, break_after: int | None = None, version: str | None = None) -> None:
        self._client = client
        self._break_after = break_after
        self._version = version

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> Any:
        return await self._client.request(method, path, params=params, timeout_s=timeout_s)

    async def stream(
        self, method: str, path: str, params: Mapping[str, str] | None = None, *, idle_timeout_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        asked = dict(params or {})
        if self._version is not None:
            asked["resourceVersion"], self._version = self._version, None
        limit, self._break_after = self._break_after, None
        async with contextlib.aclosing(
            self._client.stream(method, path, asked, idle_timeout_s=idle_timeout_s)
        ) as chunks:
            async for chunk in chunks:
                if limit is not None:
                    # Half an object, then silence for good.
                    yield chunk[:limit]
                    raise errors.ApiUnavailable("broke off")
                yield chunk


async def test_a_broken_watch_is_resumed_where_it_stood(site: Site) -> None:
    api = Tampered(site.client, break_after=20)
    async with following(site, site.mirror(api)) as copy:
        await site.create("a")
        await site.create("b")
        await copy.until(lambda: len(copy.objects) == 2)
    assert copy.told == ["LISTED", "ADDED a", "ADDED b"]


async def test_a_version_too_old_is_listed_again(site: Site) -> None:
    await site.create("a")
    if isinstance(site.client, memory_kube.MemoryKube):
        site.client.compact()
    else:
        # An API server that starts anew knows no change from before.
        await site.restart()
    async with following(site, site.mirror(Tampered(site.client, version="1"))) as copy:
        await copy.until(lambda: len(copy.told) == 2)
        await site.create("b")
        await copy.until(lambda: len(copy.objects) == 2)
    assert copy.told == ["LISTED", "LISTED", "ADDED b"]


async def test_nothing_is_lost_while_the_api_is_killed_and_restarted(site: Site) -> None:
    stop = threading.Event()
    written: list[str] = []

    def has(count: int) -> Callable[[], bool]:
        return lambda: len(written) >= count

    async with following(site) as copy:
        writing = asyncio.create_task(write_until(site, stop, written))
        for times in (1, 2):
            await waiting.until(has(5 * times))
            await site.restart()
        await waiting.until(has(15))
        stop.set()
        await writing
        listed = await kube_list.list_all(site.client, site.pods, params={})
        truth = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in listed.objects}
        await copy.until(lambda: copy.versions() == truth)
    assert 1 <= copy.told.count("AWAY") <= 2
    assert copy.told.count("LISTED") == 1 + copy.told.count("AWAY")


async def write_until(site: Site, stop: threading.Event, written: list[str]) -> None:
    """Pods come, change and go, also while the API is away; `written` has a name for each write that succeeded."""
    for number in itertools.count():
        if stop.is_set():
            return
        name, older = f"p{number}", f"p{number - 3}"
        with contextlib.suppress(errors.ApiUnavailable, errors.NotFound, errors.Conflict):
            await site.create(name)
            written.append(name)
            if number % 2:
                await site.delete(older)
                written.append(older)
        await asyncio.sleep(0.005)


async def bind(site: Site, pod: dict[str, Any], *, uid: str | None = None, node: str = "") -> None:
    metadata = pod["metadata"]
    await kube_actions.bind(
        site.client,
        namespace=site.namespace,
        name=metadata["name"],
        uid=uid or metadata["uid"],
        node=node or site.namespace,
        annotations={"carico.dev/decision": "d1"},
    )


async def test_a_bound_pod_names_its_node_and_the_decision(site: Site) -> None:
    pod = await site.create("a")
    await bind(site, pod)
    bound = await site.client.request("GET", f"{site.pods}/a")
    assert bound["spec"]["nodeName"] == site.namespace
    assert bound["metadata"]["annotations"]["carico.dev/decision"] == "d1"
    assert ("PodScheduled", "True") in {(item["type"], item["status"]) for item in bound["status"]["conditions"]}


async def test_a_pod_is_bound_once(site: Site) -> None:
    pod = await site.create("a")
    await bind(site, pod)
    with pytest.raises(errors.Conflict):
        await bind(site, pod, node="another")
    assert (await site.client.request("GET", f"{site.pods}/a"))["spec"]["nodeName"] == site.namespace


async def test_of_two_binds_at_once_one_wins(site: Site) -> None:
    pod = await site.create("a")
    outcomes = await asyncio.gather(*(bind(site, pod, node=f"n{index}") for index in range(8)), return_exceptions=True)
    assert outcomes.count(None) == 1
    assert {type(outcome) for outcome in outcomes if outcome is not None} == {errors.Conflict}


async def test_another_pod_of_the_same_name_is_not_bound(site: Site) -> None:
    first = await site.create("a")
    await site.delete("a")
    second = await site.create("a")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    with pytest.raises(errors.Conflict):
        await bind(site, second, uid=first["metadata"]["uid"])
    assert not (await site.client.request("GET", f"{site.pods}/a"))["spec"].get("nodeName")


async def test_a_status_is_merged_and_guarded_by_uid(site: Site) -> None:
    pod = await site.create("a")
    uid = pod["metadata"]["uid"]
    for kind in ("Ready", "Initialized"):
        status = {"phase": "Running", "conditions": [{"type": kind, "status": "True"}]}
        await kube_actions.patch_pod_status(site.client, namespace=site.namespace, name="a", uid=uid, status=status)
    found = (await site.client.request("GET", f"{site.pods}/a"))["status"]
    assert found["phase"] == "Running"
    assert {"Ready", "Initialized"} <= {item["type"] for item in found["conditions"]}
    with pytest.raises(errors.Conflict):
        await kube_actions.patch_pod_status(
            site.client, namespace=site.namespace, name="a", uid="another", status={"phase": "Failed"}
        )


async def test_a_node_is_patched(site: Site) -> None:
    name = f"node-{site.namespace}"
    await site.client.request("POST", "/api/v1/nodes", body={"metadata": {"name": name}})
    await kube_actions.patch_node_status(site.client, node=name, status={"capacity": {"cpu": "4"}})
    await kube_actions.patch_node(site.client, node=name, patch={"metadata": {"labels": {"x": "1"}}})
    found = await site.client.request("GET", f"/api/v1/nodes/{name}")
    assert found["status"]["capacity"] == {"cpu": "4"}
    assert found["metadata"]["labels"]["x"] == "1"


async def test_refusals_have_their_class(site: Site) -> None:
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


async def test_one_of_two_writers_of_a_version_wins(site: Site) -> None:
    pod = await site.create("a")
    first = pod | {"metadata": pod["metadata"] | {"labels": {"by": "first"}}}
    await site.client.request("PUT", f"{site.pods}/a", body=first)
    with pytest.raises(errors.Conflict):
        await site.client.request("PUT", f"{site.pods}/a", body=pod)


async def test_a_lease_is_taken_once_and_renewed_by_its_holder(site: Site) -> None:
    assert await kube_actions.get_lease(site.client, namespace=site.namespace, name="leader") is None
    wanted = kubernetes_lease.Lease(
        namespace=site.namespace,
        name="leader",
        holder="one",
        duration_s=15,
        acquired_at_ns=1_700_000_000_123_456_000,
        renewed_at_ns=1_700_000_001_123_456_000,
    )
    made = await kube_actions.create_lease(site.client, wanted)
    assert (made.holder, made.renewed_at_ns, made.duration_s) == ("one", wanted.renewed_at_ns, 15)
    with pytest.raises(errors.Conflict):
        await kube_actions.create_lease(site.client, wanted)
    renewed = await kube_actions.update_lease(site.client, replaced(made, holder="two"))
    with pytest.raises(errors.Conflict):
        await kube_actions.update_lease(site.client, replaced(made, holder="three"))
    assert await kube_actions.get_lease(site.client, namespace=site.namespace, name="leader") == renewed
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


async def test_an_event_again_is_counted_up(site: Site) -> None:
    await site.create("a")
    pod = await parsed(site, "a")
    recorder = kube_actions.EventRecorder(
        site.client, clock=clocks.SystemClock(), controller="carico.dev/scheduler", instance="test"
    )
    for _ in range(3):
        await recorder.record(pod, reason="Scheduled", action="Binding", note="placed")
    await recorder.record(pod, reason="FailedScheduling", action="Scheduling", note="full", warning=True)
    path = f"/apis/events.k8s.io/v1/namespaces/{site.namespace}/events"
    found = (await site.client.request("GET", path))["items"]
    counts = {item["reason"]: (item.get("series") or {}).get("count", 1) for item in found}
    assert counts == {"Scheduled": 3, "FailedScheduling": 1}
    assert all(item["regarding"]["uid"] == pod.uid for item in found)
    # An Event that expired meanwhile is written anew.
    for item in found:
        await site.client.request("DELETE", f"{path}/{item['metadata']['name']}")
    await recorder.record(pod, reason="Scheduled", action="Binding", note="placed")
    assert len((await site.client.request("GET", path))["items"]) == 1


async def parsed(site: Site, name: str) -> Any:
    return kubernetes.parse_pod(await site.client.request("GET", f"{site.pods}/{name}"))


def test_every_api_is_under_contract() -> None:
    assert sorted(SITES) == ["embedded", "memory", "real"]
