"""Pods made as a kubelet makes them: by the CRI service of a real containerd, whose labels and events are its own."""

import asyncio
import contextlib
import os
import pathlib
from collections.abc import AsyncIterator

import grpclib.client
import grpclib.const
import grpclib.exceptions

from carico_agent.pod_events import containerd_client, containerd_wire
from carico_agent.telemetry.cgroups import hierarchy
from tests.conformance import containerd_real
from tests.conformance.fake_containerd import field

SERVICE = "/runtime.v1.RuntimeService/"
# runtime.v1.NamespaceMode: the host's network needs no CNI.
NODE = 2
# Of v1 and v2 trees alike; nothing else is named so.
CGROUP = f"/carico-test-cri-{os.getpid()}"


class Cri:
    """The calls of a kubelet that make one Pod of one container, and end it."""

    def __init__(self, channel: grpclib.client.Channel, folder: pathlib.Path) -> None:
        self._channel = channel
        self._folder = folder
        self._configs: dict[str, bytes] = {}
        self.sandboxes: dict[str, str] = {}
        self.containers: dict[str, str] = {}

    async def ready(self) -> None:
        """Wait until the service answers: its socket exists earlier."""
        async with asyncio.timeout(containerd_real.STARTUP_S):
            while True:
                try:
                    await self._call("ListPodSandbox", b"")
                    return
                except grpclib.exceptions.GRPCError:
                    await asyncio.sleep(0.05)

    async def run_sandbox(self, uid: str) -> None:
        linux = field(1, CGROUP) + field(2, field(1, field(1, NODE)))
        metadata = field(1, uid) + field(2, uid) + field(3, "default")
        config = field(1, metadata) + field(3, str(self._folder / "logs")) + _labels(6, uid) + field(8, linux)
        self._configs[uid] = config
        self.sandboxes[uid] = await self._call("RunPodSandbox", field(1, config))

    async def run_container(self, uid: str) -> None:
        image = field(1, containerd_real.IMAGE)
        config = field(1, field(1, "main")) + field(2, image) + field(3, "/sleep") + field(4, "600") + _labels(9, uid)
        request = field(1, self.sandboxes[uid]) + field(2, config) + field(3, self._configs[uid])
        self.containers[uid] = await self._call("CreateContainer", request)
        await self._call("StartContainer", field(1, self.containers[uid]))

    async def stop_container(self, uid: str) -> None:
        await self._call("StopContainer", field(1, self.containers[uid]))

    async def remove(self, uid: str) -> None:
        sandbox = field(1, self.sandboxes.pop(uid))
        await self._call("StopPodSandbox", sandbox)
        if uid in self.containers:
            await self._call("RemoveContainer", field(1, self.containers.pop(uid)))
        await self._call("RemovePodSandbox", sandbox)

    async def _call(self, method: str, request: bytes) -> str:
        """The first field of the answer: the id of what was made."""
        cardinality = grpclib.const.Cardinality.UNARY_UNARY
        async with self._channel.request(SERVICE + method, cardinality, bytes, bytes) as stream:
            await stream.send_message(request, end=True)
            answer = dict(containerd_wire.fields(await stream.recv_message() or b"", what=method)).get(1, b"")
        assert isinstance(answer, bytes)
        return answer.decode()


@contextlib.asynccontextmanager
async def connect(real: containerd_real.Containerd) -> AsyncIterator[Cri]:
    """The CRI of a containerd; no Pod and no cgroup of it is left at the end."""
    channel = grpclib.client.Channel(path=str(real.socket), codec=containerd_client.Raw())
    cri = Cri(channel, real.folder)
    try:
        await cri.ready()
        yield cri
        for uid in list(cri.sandboxes):
            await cri.remove(uid)
    finally:
        channel.close()
        _remove_cgroups()


def _labels(number: int, uid: str) -> bytes:
    """The labels that a kubelet gives a sandbox and a container; containerd adds the kind of its own."""
    labels = {"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.name": uid, "io.kubernetes.pod.namespace": "default"}
    return b"".join(field(number, field(1, key) + field(2, value)) for key, value in labels.items())


def _remove_cgroups() -> None:
    words = (line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines())
    roots = [pathlib.Path(word[1]) for word in words if word[2] in ("cgroup", "cgroup2")]
    for root in roots:
        folder = root / CGROUP.strip("/")
        for path in [*hierarchy.folders(folder), folder]:
            with contextlib.suppress(FileNotFoundError):
                path.rmdir()
