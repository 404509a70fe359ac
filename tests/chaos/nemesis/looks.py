"""What `carico status` and `carico doctor` show while a fault lasts, asked as a person does.

The cluster of a run has no supervisor: its state is written here, as a supervisor would write it.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator

import orjson

from carico_core.wire import roles
from carico_local.cluster import folders, plan, processes, state
from carico_local.cluster.services import topology
from tests.chaos.nemesis import deck, history, nemesis_site
from tests.tools import waiting
from tests.tools.sites import security_site

# Each look lengthens its fault by some seconds.
LOOKED_AT = frozenset({
    (deck.KILL, deck.LEADER), (deck.KILL, deck.AGGREGATOR), (deck.KILL, deck.NATS), (deck.STOP, deck.STANDBY),
    (deck.STOP, deck.AGENT), (deck.STOP, deck.API),
})  # fmt: skip
COMMANDS = ("status", "doctor")
# Between looks at a cluster that is to become well.
_AGAIN_S = 1.0
_OK = 0


class Looks:
    """Asks the commands about the cluster of a run."""

    def __init__(self, site: nemesis_site.Site) -> None:
        self._site = site
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Looks"]:
        """Hold the cluster's lock, as its supervisor does."""
        paths = self._site.paths
        paths.plan.write_bytes(orjson.dumps(plan.to_json(self._site.plan)))
        with folders.acquire(paths):
            yield self

    async def during(self, step: deck.Step, target: str) -> None:
        """Record what both commands say of a service that does not work now, where this fault is looked at."""
        if (step.kind, step.part) in LOOKED_AT:
            for each in await asyncio.gather(*(self._look(command, target) for command in COMMANDS)):
                self._site.history.looks.append(each)

    async def until_well(self, *, within_s: float) -> None:
        """Return once `status` shows that all is well; record what is said at last if it does not in this time."""
        until_s = time.monotonic() + within_s
        while (look := await self._look("status", "")).code != _OK and time.monotonic() < until_s:
            await asyncio.sleep(_AGAIN_S)
        self._site.history.looks.append(look)

    async def _look(self, command: str, target: str) -> history.Look:
        async with self._lock:
            # A supervisor cannot write on a full disk either.
            with contextlib.suppress(OSError):
                state.write(self._site.paths, self._state())
        began_s = time.time()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "carico_cli", command, "--name", self._site.paths.name, "-o", "json",
            env={**self._site.environ, "XDG_STATE_HOME": str(self._site.paths.root.parents[1])},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(process.communicate(), waiting.WAIT_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return history.Look(
            command=command, target=target, began_s=began_s, ended_s=time.time(), code=process.returncode or 0,
            out=out.decode(), err=err.decode(),
        )  # fmt: skip

    def _state(self) -> state.ClusterState:
        site = self._site
        services = tuple(
            state.ServiceState(
                name=name, process=(found := _process(part)), ready=found is not None,
                restarts=max(part.starts - 1, 0), http_port=None if name in site.bus.names else site.ports.get(name),
            )
            for name, part in site.parts.items()
        )  # fmt: skip
        return state.ClusterState(
            plan=site.plan, phase=state.Phase.READY, supervisor=processes.identify_self(), started_ns=time.time_ns(),
            nats_url=site.bus.url_of(security_site.ACCOUNTS[roles.Role.CLI]),
            api_url=f"http://127.0.0.1:{site.ports[topology.API]}", services=services, crashes=(), notes=(),
            failure=None,
        )  # fmt: skip


def _process(part: nemesis_site.Part) -> processes.ProcessId | None:
    child = part.child
    return None if child is None or child.process.returncode is not None else child.id
