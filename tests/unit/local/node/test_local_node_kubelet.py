"""Which Pods a node holds, from what the API shows of them: those that were removed and still run, too."""

import asyncio
import pathlib
import random
from collections.abc import AsyncIterator
from typing import Any, Literal

from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_local.node import settings
from carico_local.node.containers import command as container_command
from carico_local.node.pods import kubelet
from carico_local.node.reporting import events, reporter
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records, users
from tests.tools import waiting


class Api:
    """Takes every status; `node` is what it shows of the Node."""

    def __init__(self, **labels: str) -> None:
        self.labels = labels
        self.statuses: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> Any:
        """The object."""
        if method == "PATCH":
            self.statuses[path.split("/")[-2]] = body["status"]
        if method == "DELETE":
            self.deleted.append(path.split("/")[-1])
        return {}


class Recorder:
    """Keeps no Event."""

    async def record(self, *_: Any, **__: Any) -> None: ...


class Unending(runtime.Runtime):
    """Starts whatever is asked for; nothing ends before SIGKILL."""

    def __init__(self, root: pathlib.Path) -> None:
        super().__init__(root, runtime_group=None)
        self.killed: dict[str, asyncio.Event] = {}

    async def start(self, command: runtime.ContainerCommand) -> int:
        """Now."""
        self.killed[command.id] = asyncio.Event()
        return 1

    async def wait(self, container_id: str, **_: Any) -> runtime.Exit | None:
        """Its end."""
        await self.killed[container_id].wait()
        return runtime.Exit(code=137, signal=9, finished_ns=2)

    def signal(self, container_id: str, number: int, **_: Any) -> None:
        """SIGKILL is for the test to send."""


def pod(name: str, *, cpu: str = "3", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "command": ["true"], "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "namespace": "n", "uid": name},
        "spec": {"nodeName": "node", "containers": [container], "restartPolicy": "Never", **spec},
    }


class Node:
    """A kubelet on 4 cores, and what the API shows it."""

    def __init__(self, root: pathlib.Path, api: Api) -> None:
        self.api = api
        self.runtime = Unending(root)
        self.seen: dict[str, str] = {}
        self.refreshes: list[Exception | None] = [None]
        chosen = settings.NodeSettings(name="node", cluster="c", kubeconfig="", root=root, latency=0.0)
        held = container_command.NodeParts(
            chosen=chosen, clock=clocks.SystemClock(), group=None, records=records.Records(root), runtime=self.runtime,
            reporter=reporter.Reporter(api, random.Random(1)), events=events.Events(Recorder()), api=api,
            users=users.ContainerUsers(default=None),
        )  # fmt: skip
        self._told: asyncio.Queue[api_client.MirrorEvent] = asyncio.Queue()
        self.kubelet = kubelet.Kubelet(held, labels=kubelet.NodeLabels(lambda: self.seen, self._refresh))

    async def _refresh(self) -> None:
        failed = self.refreshes.pop(0)
        if failed is not None:
            raise failed
        self.seen = self.api.labels

    async def _events(self) -> AsyncIterator[api_client.MirrorEvent]:
        while True:
            yield await self._told.get()

    def tell(self, kind: Literal["ADDED", "DELETED"], found: dict[str, Any]) -> None:
        """A change of a Pod."""
        self._told.put_nowait(api_client.Changed(type=kind, object=found))

    def tell_list(self, found: list[dict[str, Any]]) -> None:
        """All Pods."""
        self._told.put_nowait(api_client.Listed(objects=found, resource_version="1"))

    async def until(self, name: str, **status: str) -> None:
        """Wait until the API has this status of a Pod."""
        async with asyncio.timeout(waiting.WAIT_S):
            while not status.items() <= self.api.statuses.get(name, {}).items():
                await asyncio.sleep(0.01)

    async def run(self) -> None:
        """Follows the API."""
        await self.kubelet.run(self._events())


async def test_a_pod_that_was_deleted_by_force_holds_its_room_until_nothing_of_it_runs(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path, Api())
    running = asyncio.create_task(node.run())
    node.tell("ADDED", pod("stubborn"))
    await node.until("stubborn", phase="Running")
    node.tell("DELETED", pod("stubborn"))
    node.tell("ADDED", pod("large"))
    node.tell("ADDED", pod("small", cpu="1"))
    await node.until("large", reason="OutOfcpu")
    await node.until("small", phase="Running")
    stubborn, small = (node.kubelet.find("n", name) for name in ("stubborn", "small"))
    assert stubborn is None and small is not None
    assert small["metadata"]["uid"] == "small"
    node.runtime.killed["stubborn/c/0"].set()
    async with asyncio.timeout(waiting.WAIT_S):
        while node.kubelet.active > 1:
            await asyncio.sleep(0.01)
    node.tell("ADDED", pod("next"))
    await node.until("next", phase="Running")
    assert not running.done()
    running.cancel()


async def test_a_pod_that_cannot_be_read_can_be_deleted(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path, Api())
    running = asyncio.create_task(node.run())
    # A real API server admits none like it.
    found = pod("broken")
    found["spec"]["containers"][0]["livenessProbe"] = {"httpGet": {"path": "/"}}
    node.tell("ADDED", found)
    found["metadata"]["deletionTimestamp"] = "2026-12-01T00:00:00Z"
    node.tell("ADDED", found)
    async with asyncio.timeout(waiting.WAIT_S):
        while "broken" not in node.api.deleted:
            await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()


async def test_labels_are_read_again_before_a_pod_is_refused_by_them(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(kubelet, "_LABELS_AGAIN_S", 0.0)
    node = Node(tmp_path, Api(disk="ssd"))
    node.refreshes = [errors.ApiUnavailable("away"), None, None, errors.NotFound(404, "GET", "node", "gone")]
    running = asyncio.create_task(node.run())
    node.tell("ADDED", pod("labelled", cpu="1", nodeSelector={"disk": "ssd"}))
    await node.until("labelled", phase="Running")
    for name in ("elsewhere", "after-its-node"):
        node.tell("ADDED", pod(name, cpu="1", nodeSelector={"disk": "tape"}))
        await node.until(name, reason="NodeAffinity", phase="Failed")
    assert node.refreshes == []
    running.cancel()


async def test_records_of_an_earlier_process_stay_until_the_api_has_listed_the_pods(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path, Api())
    before = tmp_path / "pods" / "of-before"
    before.mkdir(parents=True)
    node.kubelet.discard()
    assert before.exists(), "a node that is stopped early would run a finished Pod again at its next start"
    running = asyncio.create_task(node.run())
    node.tell_list([pod("of-before")])
    await node.until("of-before", phase="Running")
    node.kubelet.discard()
    assert not before.exists()
    running.cancel()
