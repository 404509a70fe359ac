"""Pod events from containerd's stream of events, which arrive earlier than from any other source.

A Pod is created with its sandbox's container, runs while the task of one of its workload containers runs, and has
ended when none does: its sandbox stays for two seconds (published logs: 1.9 s, median). Containers that already run are
listed when the stream is open, and again after each reconnect.

Limitation: containerd does not show the owner of a Pod, so Pods of DaemonSets and static Pods count as workload, as in
`cgroup`.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Set
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from carico_agent import settings
from carico_agent.pod_events import adapter
from carico_agent.pod_events import containerd_wire as wire
from carico_core.domain import errors
from carico_core.numerics import backoff
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks

# containerd does not report when a subscription is active, so containers are listed once more after this time.
SETTLE_S = 1.0
# Events are queued and none is lost; lists are a safety net, and detect a containerd that hangs.
LIST_EVERY_S = 60.0
# A containerd that restarts is back within seconds.
RETRY_FIRST_S, RETRY_MOST_S = 0.1, 5.0

NextEvent = Callable[[], Awaitable[wire.Event | None]]


class Api(Protocol):
    """The part of a connection that the adapter uses."""

    def subscribe(self) -> AbstractAsyncContextManager[NextEvent]:
        """Return a function that waits for the next event; it returns None for an irrelevant one."""
        ...

    async def container(self, name: str) -> wire.Container | None:
        """Return one container; None if it is gone."""
        ...

    async def containers(self) -> list[wire.Container]:
        """Return the containers of Pods."""
        ...

    async def running(self) -> frozenset[str]:
        """Return the ids of the containers whose task runs."""
        ...


Connect = Callable[[], AbstractAsyncContextManager[Api]]


def open_pods(chosen: settings.AgentSettings, *, clock: clocks.Clock) -> "ContainerdPods":
    """Return the adapter for these settings.

    Raises `EnvironmentUnfit` without the package, the socket or the right to it.
    """
    try:
        from carico_agent.pod_events import containerd_client as client
    except ImportError as error:
        raise errors.EnvironmentUnfit(
            f"--pod-events containerd needs the package {error.name}: pip install grpclib, or carico-agent with its "
            "extra `containerd`; or choose --pod-events cgroup"
        ) from None
    socket = chosen.containerd_socket
    if not os.access(socket, os.R_OK | os.W_OK):
        why = "permission denied" if os.path.exists(socket) else "no such file"
        raise errors.EnvironmentUnfit(
            f"--pod-events containerd needs containerd's socket {socket}: {why}; give its path with "
            "--containerd-socket (CARICO_AGENT_CONTAINERD_SOCKET), or choose --pod-events cgroup"
        )
    return ContainerdPods(connect=lambda: client.connect(socket), away=client.Away, clock=clock)


class ContainerdPods(adapter.Adapter):
    """Implements `carico_agent.ports.PodEvents`."""

    def __init__(self, *, connect: Connect, away: type[errors.CaricoError], clock: clocks.Clock) -> None:
        """`away`: the error of a connection that may work again later."""
        super().__init__("containerd", clock=clock)
        self._connect = connect
        self._away = away
        self._containers: dict[str, wire.Container] = {}
        # Per Pod, the workload containers whose task runs.
        self._tasks: dict[str, set[str]] = {}
        # Waits since it answered.
        self._waits = 0
        self._limited = logs.RateLimited(self._log, clock=clock)

    async def run(self) -> None:
        """Keep `current` up to date until cancelled. Raises `EnvironmentUnfit` if the socket is not containerd's."""
        while True:
            try:
                async with self._connect() as api, api.subscribe() as next_event:
                    await self._follow(api, next_event)
            except (self._away, wire.Malformed) as error:
                self._limited.warning("away", "containerd is away: the last known Pods are used", why=str(error))
            await asyncio.sleep(backoff.doubled_s(self._waits, first_s=RETRY_FIRST_S, most_s=RETRY_MOST_S))
            self._waits += 1

    async def _follow(self, api: Api, next_event: NextEvent) -> None:
        """Take in events until cancelled. Events during a list wait for its end: they are newer, or repeat it."""
        loop = asyncio.get_running_loop()
        await self._list(api)
        self._waits = 0
        list_at_s = loop.time() + SETTLE_S
        # A list must not interrupt a read: half a message would be lost.
        reading = asyncio.ensure_future(next_event())
        try:
            while True:
                await asyncio.wait({reading}, timeout=max(0.0, list_at_s - loop.time()))
                if reading.done():
                    try:
                        await self._take(api, reading.result())
                    except wire.Malformed as error:
                        self._limited.warning(
                            "malformed", "an event cannot be parsed: containers are listed instead", why=str(error)
                        )
                        list_at_s = loop.time()
                    reading = asyncio.ensure_future(next_event())
                if loop.time() >= list_at_s:
                    await self._list(api)
                    list_at_s = loop.time() + LIST_EVERY_S
        finally:
            reading.cancel()
            await asyncio.wait({reading})
            if not reading.cancelled():
                reading.exception()  # containerd is away; the failed call reports it

    async def _list(self, api: Api) -> None:
        """Update the states by the containers and tasks that containerd lists."""
        containers = {container.id: container for container in await api.containers()}
        running = await api.running()
        uids = {container.pod_uid for container in containers.values() if container.pod_uid is not None}
        creating, tasks = set(uids), dict[str, set[str]]()
        for container in containers.values():
            # Only a Pod without containers is being created: one whose containers do not run has ended.
            if not container.is_sandbox or container.id not in running:
                creating.discard(container.pod_uid or "")
            if container.pod_uid is not None and not container.is_sandbox and container.id in running:
                tasks.setdefault(container.pod_uid, set()).add(container.id)
        self._containers, self._tasks = containers, tasks
        self._settle(creating=creating, listed=uids)

    def _settle(self, *, creating: Set[str], listed: Set[str]) -> None:
        now_s = self._clock.monotonic_s()
        for uid in self._states.known() - self._tasks.keys():
            if uid in listed:
                self._states.ended(uid, now_s)
            else:
                self._states.removed(uid, now_s)
        for uid in creating:
            self._states.created(uid, now_s)
        for uid in self._tasks:
            self._states.started(uid, now_s)

    async def _take(self, api: Api, event: wire.Event | None) -> None:
        if event is None:
            return
        container = await self._container(api, event)
        if container is None or container.pod_uid is None:
            return
        now_s, uid = self._clock.monotonic_s(), container.pod_uid
        match event.kind:
            case wire.Kind.CREATED:
                self._states.created(uid, now_s)
            case wire.Kind.STARTED:
                self._on_started(container, uid, now_s)
            case wire.Kind.EXITED:
                self._on_exited(container, uid, now_s)
            case wire.Kind.TASK_DELETED:
                self._on_task_deleted(container, uid, now_s)
            case wire.Kind.DELETED:
                self._on_deleted(container, uid, now_s)

    async def _container(self, api: Api, event: wire.Event) -> wire.Container | None:
        """Return the container of an event. Events only have ids, so its labels are requested once, while it exists."""
        if event.kind is wire.Kind.DELETED:
            return self._containers.pop(event.container, None)
        if event.container not in self._containers and event.kind in (wire.Kind.CREATED, wire.Kind.STARTED):
            found = await api.container(event.container)
            if found is not None:
                self._containers[event.container] = found
        return self._containers.get(event.container)

    def _on_started(self, container: wire.Container, uid: str, now_s: float) -> None:
        if not container.is_sandbox:
            self._tasks.setdefault(uid, set()).add(container.id)
            self._states.started(uid, now_s)

    def _on_exited(self, container: wire.Container, uid: str, now_s: float) -> None:
        self._forget_task(container, uid)
        if uid in self._tasks:
            return
        if container.is_sandbox:
            self._states.removing(uid, now_s)
        else:
            self._states.ended(uid, now_s)

    def _on_task_deleted(self, container: wire.Container, uid: str, now_s: float) -> None:
        # Also for a task whose exit was not reported.
        self._forget_task(container, uid)
        if uid in self._tasks:
            return
        if container.is_sandbox:
            self._states.removed(uid, now_s)
        else:
            self._states.ended(uid, now_s)
            self._states.settled(uid, now_s)

    def _on_deleted(self, container: wire.Container, uid: str, now_s: float) -> None:
        self._forget_task(container, uid)
        if container.is_sandbox and uid not in self._tasks and uid in self._states.known():
            self._states.removed(uid, now_s)

    def _forget_task(self, container: wire.Container, uid: str) -> None:
        tasks = self._tasks.get(uid, set())
        tasks.discard(container.id)
        if not tasks:
            self._tasks.pop(uid, None)
