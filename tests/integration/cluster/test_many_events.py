"""A cluster with 100,000 Events: what commands read of them is bounded, and what they leave out is said."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from carico_cli.doctor import installation, rights
from carico_cli.explain import asking, job_asking, pod_text
from carico_cli.live import addresses, object_events
from carico_cli.live import picture as pictures
from carico_cli.top import overlays, pods_screen
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes.pods import containers
from carico_local.api.storage import store
from tests.contract.kubernetes import control_planes
from tests.tools import waiting
from tests.unit.scheduler import objects

COUNT = 100_000
# Of these, so many are about one Pod.
BUSY = 40_000
NAMESPACE = "default"
# The embedded API would remove all but 10,000 Events while these tests read them; a real one keeps them for an hour.
KEEPS_ALL = f"""
import runpy
from carico_local.api.lifecycle import events
events.KEPT_MOST = {COUNT}
runpy.run_module("carico_local.api", run_name="__main__")
"""


def event(number: int) -> dict[str, Any]:
    """Most are about Pods that are gone; two are about the Pod `quiet`."""
    about = "busy" if number < BUSY else "quiet" if number % 30_000 == 1 else f"gone-{number}"
    at = f"2026-01-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
    return {
        "metadata": {"name": f"{about}.{number:08x}", "namespace": NAMESPACE, "uid": str(number)},
        "involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": about, "uid": about},
        "reason": "FailedScheduling" if about == "quiet" else "FailedMount",
        "message": f'secret "secret-{number}" not found', "type": "Warning",
        "firstTimestamp": at, "lastTimestamp": at,
    }  # fmt: skip


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[control_planes.KubeApi]:
    folder: pathlib.Path = tmp_path_factory.mktemp("events")
    kept = store.Store(folder / "data")
    with kept.batch():
        for number in range(COUNT):
            kept.put("events", event(number))
    kept.close()
    with control_planes.embedded(folder, program=("-c", KEEPS_ALL)) as running:
        for name in ("busy", "quiet"):
            body = objects.pod_object(name)
            assert running.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body).code == 201
        yield running
        running.pool.clear()


@pytest.fixture(autouse=True)
def on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many Events are read is tested here, and not how long that takes on a machine that does other work too."""
    for module, name in ((object_events, "WITHIN_S"), (asking, "ANSWER_MOST_S")):
        monkeypatch.setattr(module, name, waiting.WAIT_S)


@pytest.fixture
async def api(crowded: control_planes.KubeApi) -> AsyncIterator[api_client.KubeClient]:
    wanted = api_client.KubeSettings(kubeconfig=str(crowded.kubeconfig))
    client = await api_client.connect(wanted, clock=clocks.SystemClock(), user_agent="test")
    yield client
    await client.close()


def asker(api: api_client.KubeClient) -> asking.Asker:
    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[object_events.Api]:
        yield api

    at = addresses.Address(name="here", bus=buses.BusSettings(), kube=api_client.KubeSettings())
    return asking.Asker(cast(asking.Bus, None), at, connect, clocks.SystemClock())


async def test_explain_finds_the_two_events_of_a_pod_among_all(api: api_client.KubeClient) -> None:
    found = await asker(api).events(NAMESPACE, "quiet")
    assert isinstance(found, object_events.Found), found
    assert [each["metadata"]["uid"] for each in found.newest] == ["60001", "90001"]
    assert (found.earlier, found.unread) == (0, None)


async def test_explain_says_what_it_has_not_read(api: api_client.KubeClient) -> None:
    found = await asker(api).events(NAMESPACE, "busy")
    assert isinstance(found, object_events.Found), found
    assert len(found.newest) == object_events.KEPT_MOST
    answer = {
        "namespace": NAMESPACE, "pod": "busy", "state": "bound", "node": "node-1", "phase": "Pending", "why": "room",
        "containers": containers.troubles({"containerStatuses": [{"name": "a", "state": {"waiting": {}}}]}),
        "events": found.newest, "events_earlier": found.earlier, "events_unread": found.unread,
    }  # fmt: skip
    lines = pod_text.text(answer, now_ns=0).splitlines()
    assert "newer ones may be missing" in " ".join(" ".join(lines).split())
    assert len(lines) < 24


async def test_explain_job_finds_what_a_pod_waited_for_among_all(api: api_client.KubeClient) -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}
    pods = [
        {
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "node-1"}, "status": {"conditions": [scheduled]},
        }
        for name in ("quiet", "other")
    ]  # fmt: skip
    found = await job_asking._failures(api, NAMESPACE, pods)
    assert [each["metadata"]["uid"] for each in found.newest] == ["60001", "90001"]
    assert (found.earlier, found.unread) == (0, None)


class Reader:
    """What a screen of `carico top` reads."""

    def __init__(self, api: api_client.KubeClient) -> None:
        self.api = api


async def test_top_describes_a_pod_with_forty_thousand_events(api: api_client.KubeClient) -> None:
    found = await api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/busy")
    assert found["metadata"]["name"] == "busy"
    pod = cast(pictures.Pod, Named())
    text = await pods_screen.description_of(cast(overlays.Reader, Reader(api)), pod)
    lines = text.splitlines()
    assert lines[0] == "Events:" and lines[1].endswith("earlier ones are left out")
    assert sum("FailedMount" in line for line in lines) == object_events.KEPT_MOST
    assert "newer ones may be missing" in text
    assert "name: busy" in text


class Named:
    """The Pod `busy`."""

    namespace, name, uid, node = NAMESPACE, "busy", "busy", None


async def test_doctor_reads_no_more_than_it_needs(api: api_client.KubeClient) -> None:
    found = await installation._mounts(cast(rights.Api, api), NAMESPACE)
    assert len(found) == object_events.KEPT_MOST


async def test_the_api_answers_others_meanwhile(api: api_client.KubeClient) -> None:
    reading = asyncio.ensure_future(object_events.newest(api, NAMESPACE, "involvedObject.uid=busy"))
    await api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/quiet")
    assert not reading.done()
    await reading
