"""A small cluster on a bus with identities: what must go on while someone attacks it.

The embedded API, a scheduler and an aggregator are processes, each with the key or token of its role; the honest
nodes' agents live in a thread of the test. `ATTACKER` is a node as well, as whose agent the tests connect.
"""

import contextlib
import itertools
import pathlib
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from carico_core.domain import messages
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import roles, subjects
from tests.contract.kubernetes import control_planes
from tests.security import bus_site, process, raw_client
from tests.tools import advertised, service_process, waiting

ATTACKER = bus_site.ATTACKER
HONEST = (bus_site.VICTIM, bus_site.QUIET)
PODS = "/api/v1/namespaces/default/pods"
# A bind is due within 1 s; four times as long is a failure.
BIND_WITHIN_S = 4.0
# A service that was disconnected reconnects within 2 s.
HEARD_WITHIN_S = 8.0
ADVERTISE_EVERY_S = 0.25
ROOM = 100.0
# What an attack may leave in the memory of a service, which takes some of it for its first Pods.
KEPT_MOST_BYTES = 25 << 20
_CLI_INBOX = roles.inbox(roles.Role.CLI)
# Of tests for which it makes no difference by which way clients are let in, and of those about what the callout does.
STATIC, CALLOUT = (
    pytest.mark.parametrize("site", [kind], indirect=True) for kind in (bus_site.KIND_STATIC, bus_site.KIND_CALLOUT)
)


class LiveSite:
    """The cluster. Made by `running`."""

    def __init__(self, bus: bus_site.Bus, kube: control_planes.KubeApi, root: pathlib.Path) -> None:
        self.bus = bus
        self.kube = kube
        self.root = root
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._numbers = itertools.count()
        self._boot = clocks.boot_id(clocks.SystemClock())
        self._seq = itertools.count(1)

    def start_service(self, name: str, role: roles.Role, *flags: str) -> None:
        """Start one service by its module, with the key or token of its role."""
        settings = self.bus.settings(role)
        shown = {"nkey": settings.nkey, "token-file": settings.token_file, "tls-ca": settings.tls_ca}
        bus = [f"--bus-{flag}={value}" for flag, value in shown.items() if value]
        own = ("--bus-url", settings.url, *bus, "--http-port", "-1")
        self.processes[name] = service_process.start(self._log(name), name, *own, *flags)

    def create_nodes(self) -> None:
        """Create the honest nodes and the attackers', all ready."""
        size = {"cpu": "16", "memory": "8Gi", "pods": "200"}
        ready = [{"type": "Ready", "status": "True", "reason": "Test"}]
        for name in (ATTACKER, *HONEST, *bus_site.FLOODING):
            status = {"capacity": size, "allocatable": size, "conditions": ready}
            assert (
                self.kube.request("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status}).code == 201
            )

    def advertisement(self, node: str, *, room: float = ROOM, **more: Any) -> messages.Advertisement:
        """Return an honest advertisement of a node, which counts every Pod that is bound to it."""
        pods = self.kube.request("GET", PODS).body["items"]
        covers = frozenset(pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName") == node)
        return advertised.advertisement(
            node, room=room, cores=room, covers=covers, boot=self._boot, seq=next(self._seq), at_ns=time.time_ns(),
            **more,
        )  # fmt: skip

    def advertise(self, ended: threading.Event) -> None:
        """Publish for the honest nodes until `ended`; each agent has a connection of its own."""
        with contextlib.ExitStack() as stack:
            agents = {node: stack.enter_context(self.bus.raw(roles.Role.AGENT, node)) for node in HONEST}
            while not ended.wait(ADVERTISE_EVERY_S):
                for node, agent in agents.items():
                    agent.publish(subjects.capacity(node), wire.encode_advertisement(self.advertisement(node)))
                    agent.settle()
                    agent.messages.clear()

    def bind(self) -> tuple[float, str]:
        """Create a Pod; return after how many seconds it was bound, and to which node. Fails past `BIND_WITHIN_S`."""
        name = f"pod-{next(self._numbers)}"
        spec = {"schedulerName": "carico", "containers": [{"name": "c", "image": "none"}]}
        began_s = time.monotonic()
        assert self.kube.request("POST", PODS, {"metadata": {"name": name}, "spec": spec}).code == 201
        found: list[str] = []

        def is_bound() -> bool:
            found[:] = filter(None, [self.kube.request("GET", f"{PODS}/{name}").body["spec"].get("nodeName")])
            return bool(found)

        waiting.until_now(is_bound, within_s=BIND_WITHIN_S, what=self.logs)
        return time.monotonic() - began_s, found[0]

    def ask(self, service: str, verb: str, *, within_s: float = HEARD_WITHIN_S) -> Any:
        """Return a service's answer to the cli. Raises `TimeoutError` and `orjson.JSONDecodeError`."""
        with self.bus.raw(roles.Role.CLI) as cli:
            return orjson.loads(
                cli.request(subjects.query(service, verb), inbox=_CLI_INBOX, within_s=within_s).payload
            )  # fmt: skip

    def row(self, node: str) -> dict[str, Any]:
        """Return what the scheduler states of a node."""
        rows: list[dict[str, Any]] = self.ask("scheduler", "capacity.list")["nodes"]
        return next(row for row in rows if row["node"] == node)

    def memory(self) -> dict[str, int]:
        """Return how many bytes each service has in RAM."""
        return {name: process.rss_bytes(each.pid) for name, each in self.processes.items()}

    def check(self) -> None:
        """Fail where a service has ended."""
        for name, each in self.processes.items():
            assert each.poll() is None, f"{name} ended: {self.logs()}"

    def hears_honest_nodes(self) -> bool:
        """Return whether the scheduler has new reports of all honest nodes, and the aggregator answers."""
        try:
            # Asked again: the one that is asked may have just been disconnected.
            nodes = self.ask("scheduler", "capacity.list", within_s=2.0)["nodes"]
            self.ask("aggregator", "nodes.list", within_s=2.0)
        except (TimeoutError, orjson.JSONDecodeError, KeyError, raw_client.Closed):
            return False
        return {row["node"] for row in nodes if row["freshness"] == "fresh"} >= set(HONEST)

    def logs(self) -> str:
        """Return the end of what the services wrote."""
        return "\n".join("\n".join(self._log(name).read_text().splitlines()[-5:]) for name in self.processes)

    def _log(self, name: str) -> pathlib.Path:
        return self.root / f"{name}.log"


@contextlib.contextmanager
def running(root: pathlib.Path, *, kind: str = bus_site.KIND_STATIC) -> Iterator[LiveSite]:
    """A cluster on a bus of that kind that has bound a first Pod, ended at the end."""
    folder = root / "kube"
    folder.mkdir()
    # Nodes have no kubelet here, whose silence would make them not ready.
    grace = ("--node-grace-s", "3600")
    with bus_site.RUNNING[kind](root) as bus, control_planes.embedded(folder, *grace) as kube:
        site = LiveSite(bus, kube, root)
        ended = threading.Event()
        agents = threading.Thread(target=site.advertise, args=(ended,))
        try:
            site.start_service("carico_aggregator", roles.Role.AGGREGATOR)
            flags = ("--kubeconfig", str(kube.kubeconfig), "--no-leader-election")
            site.start_service("carico_scheduler", roles.Role.SCHEDULER, *flags)
            site.create_nodes()
            agents.start()
            waiting.until_now(site.hears_honest_nodes, what=site.logs)
            site.bind()
            yield site
        finally:
            ended.set()
            agents.join()
            service_process.end(*site.processes.values())


@contextlib.contextmanager
def attacked(*attacks: Any) -> Iterator[None]:
    """Run attacks, each a function of the event that ends it, in threads for as long as the block runs."""
    ended = threading.Event()
    threads = [threading.Thread(target=attack, args=(ended,)) for attack in attacks]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
