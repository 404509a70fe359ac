"""A cluster whose every process can be killed, stopped and cut off: the services of `carico up`.

Two schedulers, each with its own way to the API, on which its binds and its writes of the Lease are recorded; two
aggregators; three emulated nodes with their agents; with identities, two replicas of the auth callout; all on a small
disk, where one can be mounted.
"""

import asyncio
import collections
import contextlib
import dataclasses
import errno
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_local import atomic_files
from carico_local.api import access
from carico_local.cgroups import sweep
from carico_local.cluster import folders, free_ports, machine, processes
from carico_local.cluster import plan as plans
from carico_local.cluster.services import readiness, topology
from carico_local.cluster.services import service as parts
from carico_local.node.runtime import records
from tests.chaos.nemesis import checker, history, identities, memory_limits, nemesis_bus, scheduler_api, shifted_clock
from tests.tools import tcp_proxy, waiting

CLOCK = clocks.SystemClock()
SCHEDULERS = ("scheduler", "scheduler-2")
AGGREGATORS = ("aggregator", "aggregator-2")
# docs/high-availability.md: sound on a quiet cluster, and leaders change more often in a run.
LEADER_FLAGS = (
    "--leader-lease-s", "6", "--leader-renew-s", "4", "--leader-retry-s", "1", "--bind-timeout-s", "2",
)  # fmt: skip
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/carico-scheduler"
# A node that is told to stop lets its Pods finish for so long; none of the run works longer.
DRAIN_S = 45.0
# What the streams reserve (320 MiB) is at most three quarters of it.
DISK = "512m"
SAMPLED_EVERY_S = 1.0
# States of connections in /proc/net/tcp (include/net/tcp_states.h).
_ESTABLISHED, _LISTEN = "01", "0A"
# After its end, as a kubelet does for the first time.
STARTED_AGAIN_S = 1.0


@dataclasses.dataclass(slots=True, kw_only=True)
class Part:
    """A service of the cluster, its ways to the bus and the API, and what moves its wall clock."""

    name: str
    clock: shifted_clock.Offset | None = None
    child: processes.Child | None = None
    # One to each server of NATS.
    wires: list[tcp_proxy.Proxy] = dataclasses.field(default_factory=list)
    api: tcp_proxy.Proxy | None = None
    seen: scheduler_api.SchedulerApi | None = None
    starts: int = 0


class Site:
    """The processes of the cluster and what can be done to them."""

    def __init__(
        self, root: pathlib.Path, *, name: str, into: history.History, leader_flags: Sequence[str] = LEADER_FLAGS,
        servers: int = 1, with_identities: bool = True,
    ) -> None:  # fmt: skip
        environ = settings.environment()
        options = plans.Options(name=name, nodes=3, aggregators=2, schedulers=2, scale=1 / 16)
        self.plan = plans.make_plan(options, machine.read_machine())
        self.paths = folders.Paths(root)
        self.history = into
        self._leader_flags = leader_flags
        ports = free_ports.choose(name, topology.ports_needed(self.plan))
        self._where = topology.addresses(self.plan, ports)
        self.environ = {**parts.stripped(environ), sweep.RUN_VARIABLE: str(root), "PYTHONUNBUFFERED": "1"}
        self.parts: dict[str, Part] = {}
        # Held while a service is not to run, so that each process is started once.
        self.busy: dict[str, asyncio.Lock] = collections.defaultdict(asyncio.Lock)
        # Pods append lines here: any user may write.
        self.marks = pathlib.Path(tempfile.mkdtemp(prefix="carico-nemesis-"))
        self.runs = self.marks / "runs"
        self._given = identities.Identities(self.marks / "identities") if with_identities else None
        self.auths = identities.AUTHS if with_identities else ()
        self._auth_ports = {name: free_ports.choose_one() for name in self.auths}
        self.bus = nemesis_bus.Bus(self.paths, self.environ, servers=servers, given=self._given)
        self.memory = memory_limits.MemoryLimits(self.plan.name, checker.MEMORY_LIMITS)
        self.client: api_client.KubeClient

    @property
    def ports(self) -> Mapping[str, int]:
        """Where services listen, by their names; servers of NATS are asked otherwise."""
        return {**self._where.ports, **self._auth_ports}

    @property
    def agents(self) -> list[str]:
        """The services that measure the nodes."""
        return [f"agent/{node}" for node in self.plan.node_names]

    def prepare(self) -> None:
        """Write every file that the services read."""
        for directory in (self.paths.data / "nodes", self.paths.data / "api", self.paths.run, self.paths.logs):
            directory.mkdir(parents=True, exist_ok=True)
        self.marks.chmod(0o777)
        self.runs.touch()
        self.runs.chmod(0o666)
        topology.write_configuration(self.plan, self._where, self.paths, self.environ)
        self.bus.write()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Site"]:
        """The cluster with everything ready, until the block ends; then nothing of it is left."""
        self.prepare()
        async with contextlib.AsyncExitStack() as stack:
            await self._open_ways(stack)
            stack.push_async_callback(self._end)
            if self._given is not None:
                clients = [name for name, part in self.parts.items() if part.wires and name not in self.auths]
                renewing = asyncio.create_task(self._given.renew_forever(clients))
                stack.callback(renewing.cancel)
            await asyncio.gather(*map(self.start, self.bus.names))
            nodes = [f"node/{node}" for node in self.plan.node_names]
            for name in (*self.auths, topology.API, *nodes, *AGGREGATORS, *SCHEDULERS, *self.agents):
                await self.start(name)
            wanted = api_client.KubeSettings(kubeconfig=str(self.paths.kubeconfig))
            self.client = await api_client.connect(wanted, clock=CLOCK, user_agent="nemesis")
            stack.push_async_callback(self.client.close)
            yield self

    async def start(self, name: str) -> None:
        """Start a service and return once it is ready, or has ended again."""
        service = await self.spawn(name)
        child = self.parts[name].child
        assert child is not None, "it has just been started"
        ready = asyncio.ensure_future(readiness.wait(service.probe))
        ended = asyncio.ensure_future(child.process.wait())
        try:
            await asyncio.wait([ready, ended], return_when=asyncio.FIRST_COMPLETED, timeout=waiting.WAIT_S)
        finally:
            ready.cancel()
            ended.cancel()

    async def spawn(self, name: str) -> parts.Service:
        """Start the process of a service, and return the service; it is not ready yet."""
        part = self.parts[name]
        part.starts += 1
        if part.seen is not None:
            # Another one for each process, as by default: a new process must not continue the term of the old one.
            part.seen.identity = f"{name}.{part.starts}"
        service = self._service(name)
        readiness.forget(service.probe)
        part.child = await processes.start(service.command)
        return service

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a service, if it runs."""
        child = self.parts[name].child
        if child is not None and child.process.returncode is None:
            # One that has just ended by itself is not known to have.
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.process.pid, number)

    async def end(self, name: str, number: signal.Signals) -> None:
        """Send a signal that ends a service, and wait until it has ended."""
        child = self.parts[name].child
        self.send(name, number)
        if child is not None:
            await child.process.wait()

    async def ended(self, name: str, *, within_s: float) -> None:
        """Return once a service has ended, at the latest after this time."""
        child = self.parts[name].child
        if child is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.process.wait(), within_s)

    def move_clock(self, name: str, seconds: float) -> None:
        """Move the wall clock of a service, from now on."""
        offset = self.parts[name].clock
        assert offset is not None, "a part whose clock can be moved has an offset"
        offset.add(seconds)

    @contextlib.asynccontextmanager
    async def without_token(self, name: str) -> AsyncIterator[None]:
        """Have a service's token refused, by the bus and the API, and end its connections to the bus."""
        assert self._given is not None, "a run with tokens"
        with self._given.revoked(name):
            for wire in self.parts[name].wires:
                await wire.end_connections()
            yield

    @contextlib.asynccontextmanager
    async def with_two_keys(self) -> AsyncIterator[None]:
        """Replace the key of the callout: both are accepted in the block, and the old one is refused after it."""
        assert self._given is not None, "a run with keys"
        self._given.rotate()
        try:
            await self._restart_servers()
            yield
        finally:
            self._given.retire()
            await self._restart_servers()

    async def _restart_servers(self) -> None:
        """Have the servers read their configuration: NATS reloads no keys of a callout."""
        await self._write_keys()
        for name in self.bus.names:
            async with self.busy[name]:
                await self.end(name, signal.SIGTERM)
                await self.start(name)

    async def _write_keys(self) -> None:
        """Write the servers' configuration; who replaces a key while the disk is full tries again until it is not."""
        while True:
            try:
                self.bus.write()
                return
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            await asyncio.sleep(STARTED_AGAIN_S)

    async def supervise_forever(self) -> None:
        """Start again what has ended by itself, as a kubelet does, until cancelled."""
        while True:
            await asyncio.sleep(STARTED_AGAIN_S)
            for name, part in self.parts.items():
                if not _has_ended(part) or self.busy[name].locked():
                    continue
                async with self.busy[name]:
                    # Who waited for this before may have started it meanwhile.
                    if _has_ended(part):
                        self.history.ends.append(history.End(service=name, at_s=time.time()))
                        await self.spawn(name)

    async def request(self, method: str, path: str, body: object = None, **options: object) -> object:
        """One request, again until the API answers; what it refuses is raised."""
        while True:
            with contextlib.suppress(errors.ApiUnavailable):
                return await self.client.request(method, path, body=body, **options)  # type: ignore[arg-type]
            await asyncio.sleep(0.1)

    def measures_processes(self, node: str) -> bool:
        """True where a node has no cgroup, so that its agent adds up processes."""
        return bool(topology.read_ready(self.paths, node).get("fallback"))

    def fill_disk(self) -> None:
        """Write until nothing more fits on the disk of the cluster, if that is its own."""
        if os.path.ismount(self.paths.root):
            with self._filler.open("wb", buffering=0) as file:
                found = os.statvfs(self.paths.root)
                with contextlib.suppress(OSError):
                    os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize)
                # What a service has freed since, or a last page.
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * 2**12)

    def empty_disk(self) -> None:
        """Free what `fill_disk` took."""
        self._filler.unlink(missing_ok=True)

    @property
    def _filler(self) -> pathlib.Path:
        return self.paths.root / "filler"

    async def sample_forever(self) -> None:
        """Record what each process uses, until cancelled."""
        while True:
            await asyncio.sleep(SAMPLED_EVERY_S)
            for name, part in self.parts.items():
                if part.child is not None and part.child.process.returncode is None:
                    with contextlib.suppress(OSError):
                        self.history.samples.append(_sample(name, part.child.id))

    async def write_pages(self) -> None:
        """Write what each service shows about itself next to its log."""
        for name, part in self.parts.items():
            port = self.ports.get(name)
            if not part.wires or port is None:
                continue
            for path in ("/readyz", "/metrics"):
                answer = await readiness.get(port, path)
                file = self.paths.logs / f"{parts.log_name(name)}{path.replace('/', '.')}"
                file.write_bytes(b"no answer" if answer is None else answer.body)

    def read_runs(self) -> Iterator[history.Run]:
        """Yield the lines that the Pods' own processes wrote."""
        for line in self.runs.read_text().splitlines():
            what, uid, node, at_s = line.split()
            yield history.Run(uid=uid, node=node, at_s=float(at_s), is_start=what == "start")

    async def _open_ways(self, stack: contextlib.AsyncExitStack) -> None:
        """Open what stands between a part and the bus, and between a part and the API."""
        if self._given is not None:
            stack.callback(self._given.close)
        for name in (*self.bus.names, *self.auths, *topology.service_names(self.plan)):
            part = self.parts.setdefault(name, Part(name=name))
            if name in self.bus.names:
                continue
            part.clock = shifted_clock.Offset(self.paths.run / f"{parts.log_name(name)}.clock")
            if name.startswith(("auth", "scheduler", "aggregator", "agent")):
                for port in self.bus.ports.values():
                    part.wires.append(await stack.enter_async_context(tcp_proxy.Proxy(port).running()))
            if name.startswith(("auth", "scheduler", "node")):
                is_auth = self._given is not None and name in self.auths
                port = self._given.api.port if self._given is not None and is_auth else self._where.ports[topology.API]
                part.api = await stack.enter_async_context(tcp_proxy.Proxy(port).running())
            if name.startswith(("scheduler", "node")):
                await self._open_api(part, stack)

    async def _open_api(self, part: Part, stack: contextlib.AsyncExitStack) -> None:
        """Write the kubeconfig of a scheduler or a node."""
        assert part.api is not None
        token = access.obtain_token(self.paths.data / "api" / "token")
        url, file = f"http://127.0.0.1:{part.api.port}", self._kubeconfig(part.name)
        if part.name not in SCHEDULERS:
            access.write_kubeconfig(file, name=self.plan.name, url=url, token=token)
            return
        # On the scheduler's side of a cut: a bind counts from when it was sent, however late it arrives.
        is_good = (lambda shown: shown == token) if self._given is None else self._given.api.is_good
        part.seen = scheduler_api.SchedulerApi(url, token=token, into=self.history, is_good=is_good)
        await stack.enter_async_context(part.seen.running())
        access.write_kubeconfig(file, name=self.plan.name, url=part.seen.url, token=token)
        if self._given is not None:
            config = json.loads(file.read_text())
            config["clusters"][0]["cluster"]["server"] = part.seen.url
            config["users"][0]["user"] = {"tokenFile": str(self._given.token_file(part.name))}
            atomic_files.write(file, json.dumps(config).encode())

    def _kubeconfig(self, name: str) -> pathlib.Path:
        return self.paths.run / f"{parts.log_name(name)}.kubeconfig"

    def _service(self, name: str) -> parts.Service:
        """The service as `carico up` would start it, by its own way to the bus and the API."""
        if name in self.bus.names:
            found = self.bus.service(name)
            argv = self.memory.wrapped(name, found.command.argv)
            return dataclasses.replace(found, command=dataclasses.replace(found.command, argv=tuple(argv)))
        part = self.parts[name]
        found = self._auth(part) if name in self.auths else self._of_cluster(part)
        assert part.clock is not None, "every Python program has one"
        argv = self.memory.wrapped(name, shifted_clock.command(found.command.argv, part.clock))
        environ = found.command.environ
        if part.wires and name not in self.auths:
            environ = {**environ, **self.bus.settings_of(name, [wire.port for wire in part.wires])}
        return dataclasses.replace(
            found, command=dataclasses.replace(found.command, argv=tuple(argv), environ=environ)
        )  # fmt: skip

    def _auth(self, part: Part) -> parts.Service:
        assert self._given is not None and part.api is not None
        port = self._auth_ports[part.name]
        urls = ",".join(f"nats://127.0.0.1:{wire.port}" for wire in part.wires)
        argv = self._given.auth(port=port, bus_url=urls, api_port=part.api.port)
        command = parts.command(part.name, argv, self.paths, self.environ)
        return parts.Service(name=part.name, command=command, probe=readiness.Http(port=port))

    def _of_cluster(self, part: Part) -> parts.Service:
        built = topology.services(self.plan, self._where, self.paths, self.environ)
        found = next(service for service in built if service.name == part.name)
        argv = list(found.command.argv)
        if part.api is not None:
            argv[argv.index("--kubeconfig") + 1] = str(self._kubeconfig(part.name))
        if part.seen is not None:
            argv += ["--leader-identity", part.seen.identity, *self._leader_flags]
        elif part.name.startswith("node/"):
            argv += ["--drain-s", f"{DRAIN_S:g}"]
        return dataclasses.replace(found, command=dataclasses.replace(found.command, argv=tuple(argv)))

    async def _end(self) -> None:
        for name in self.parts:
            self.send(name, signal.SIGCONT)
        children = {name: part.child for name, part in self.parts.items() if part.child is not None}
        nodes = [children.pop(f"node/{node}") for node in self.plan.node_names if f"node/{node}" in children]
        # They would wait for their Pods, of which none is of interest any more.
        await processes.stop(children.values(), grace_s=5)
        await processes.stop(nodes, grace_s=0.1)
        roots = [self.paths.data / "nodes" / node for node in self.plan.node_names]
        await asyncio.to_thread(sweep.sweep, self.plan.name, state_dirs=roots)
        for root in roots:
            records.remove_pod_files(root)
        shutil.rmtree(self.marks)


@contextlib.contextmanager
def disk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A small file system of its own, where one can be mounted; elsewhere a folder."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "carico-nemesis", str(folder)]
    is_mounted = (
        os.geteuid() == 0
        and shutil.which("mount") is not None
        and subprocess.run(command, check=False, capture_output=True).returncode == 0
    )
    try:
        yield folder
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def _has_ended(part: Part) -> bool:
    return part.child is not None and part.child.process.returncode is not None


def _sample(service: str, process: processes.ProcessId) -> history.Sample:
    folder = pathlib.Path(f"/proc/{process.pid}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return history.Sample(
        service=service, instance=f"{process.pid}-{process.start_ticks}", at_s=time.time(),
        rss_bytes=int(status.get("VmRSS", "0").split()[0]) * 1024, descriptors=descriptors(process.pid),
        threads=int(status["Threads"]),
    )  # fmt: skip


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has, without connections that clients have opened to it and not closed.

    Those follow which clients run: each scheduler has some 17 to the API. Clients are judged by their own. One that the
    client has closed is in CLOSE_WAIT, and counts.
    """
    folder = pathlib.Path(f"/proc/{pid}")
    of_clients, links = _of_clients(folder), []
    for each in (folder / "fd").iterdir():
        # It may be closed by now.
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(each))
    # Clients that were cut off come back dozens at a time, also between the two looks.
    of_clients |= _of_clients(folder)
    return sum(each not in of_clients for each in links)


def _of_clients(folder: pathlib.Path) -> set[str]:
    """Return the connections to ports on which a process listens that both sides hold, as links to descriptors."""
    connections = [line.split() for line in (folder / "net/tcp").read_text().splitlines()[1:]]
    listening = {local.partition(":")[2] for _, local, _, state, *_ in connections if state == _LISTEN}
    return {
        f"socket:[{each[9]}]"
        for each in connections
        if each[3] == _ESTABLISHED and each[1].partition(":")[2] in listening
    }


def zones(plan: plans.Plan) -> Mapping[str, Mapping[str, str]]:
    """The labels of each node: one in zone a, the others in zone b."""
    return {node: {"zone": "b" if index else "a"} for index, node in enumerate(plan.node_names)}
