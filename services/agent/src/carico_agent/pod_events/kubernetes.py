"""Pod events from the Kubernetes API. Pods that belong to the node are not counted.

Events are late, because they pass through the kubelet and the API: a Pod is created when it is bound, and runs or has
ended when the kubelet has reported it, after the runtime's own load. The API does not show when a sandbox is removed,
so the hold after an end lasts 300 ms. Pods that ended before the agent started are ignored.
"""

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Set
from typing import Any, Protocol

from carico_agent import settings
from carico_agent.pod_events import adapter, pod_states
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes.pods import status

PODS = "/api/v1/pods"


class Api(Protocol):
    """The part of a client that is used."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None
    ) -> AsyncGenerator[api_client.MirrorEvent, None]:
        """List and watch for ever."""
        ...

    async def close(self) -> None:
        """Close the client."""
        ...


Connect = Callable[[], Awaitable[Api]]


def connector(
    chosen: settings.AgentSettings, *, clock: clocks.Clock, observe: api_client.Observe | None = None
) -> Connect:  # fmt: skip
    """Return a function that connects to the API in these settings."""
    wanted = api_client.KubeSettings(kubeconfig=chosen.kubeconfig, context=chosen.kube_context)
    return lambda: api_client.connect(wanted, clock=clock, user_agent=settings.PROGRAM, observe=observe)


async def follow(node: str, connect: Connect, take: Callable[[api_client.MirrorEvent], None]) -> None:
    """Pass each event of the node's Pods to `take` until cancelled. Raises `KubeconfigError`."""
    api = await connect()
    try:
        async with contextlib.aclosing(api.mirror(PODS, params={"fieldSelector": f"spec.nodeName={node}"})) as events:
            async for event in events:
                take(event)
    finally:
        await api.close()


def open_pods(chosen: settings.AgentSettings, *, clock: clocks.Clock) -> "KubernetesPods":
    """Return the adapter for these settings, for the Pods bound to the agent's Node."""
    return KubernetesPods(
        chosen.node, clock=clock, connect=connector(chosen, clock=clock),
        baseline_namespaces=frozenset(chosen.baseline_namespaces),
    )  # fmt: skip


class KubernetesPods(adapter.Adapter):
    """Implements `carico_agent.ports.PodEvents`."""

    def __init__(
        self, node: str, *, clock: clocks.Clock, connect: Connect, baseline_namespaces: Set[str] = frozenset()
    ) -> None:  # fmt: skip
        super().__init__("kubernetes", clock=clock)
        self._baseline_namespaces = baseline_namespaces
        # UIDs of running Pods that belong to the node.
        self._own: set[str] = set()
        self._node = node
        self._connect = connect
        # Pods that have ended: the API keeps them, and further changes of theirs are no events.
        self._done: set[str] = set()
        self._away = False

    def current(self) -> pod_states.KnownPods:
        """Return the current Pods; while the API is away, the last known ones."""
        return dataclasses.replace(super().current(), baseline=frozenset(self._own))

    async def run(self) -> None:
        """Keep `current` up to date until cancelled. Raises `KubeconfigError`."""
        await follow(self._node, self._connect, self._take)

    def _take(self, event: api_client.MirrorEvent) -> None:
        match event:
            case api_client.Listed(objects=objects):
                self._on_list(objects)
            case api_client.Changed(type="DELETED", object=pod):
                self._on_deleted(pod)
            case api_client.Changed(object=pod):
                self._on_pod(pod, is_new=True)
            case api_client.Away(error=error):
                self._away = True
                self._log.warning("the API is away: the last known Pods are used", why=str(error))

    def _on_list(self, objects: list[dict[str, Any]]) -> None:
        if self._away:
            self._away = False
            self._log.info("the API is available again")
        listed = {run.uid for pod in objects if (run := self._read(pod)) is not None}
        for uid in self._states.known() - listed:
            self._states.removed(uid, self._clock.monotonic_s())
        self._done &= listed
        self._own &= listed
        for pod in objects:
            self._on_pod(pod, is_new=False)

    def _on_deleted(self, pod: dict[str, Any]) -> None:
        run = self._read(pod)
        if run is None:
            return
        self._own.discard(run.uid)
        if run.uid not in self._done and not run.is_baseline:
            self._states.removed(run.uid, self._clock.monotonic_s())
        self._done.discard(run.uid)

    def _on_pod(self, pod: dict[str, Any], *, is_new: bool) -> None:
        run = self._read(pod)
        if run is not None and run.is_baseline:
            self._note_own(run)
        if run is None or run.is_baseline or run.uid in self._done:
            return
        now_s = self._clock.monotonic_s()
        match run.state:
            case status.RunState.WAITING:
                # A container that restarts counts as ended in between.
                self._states.ended(run.uid, now_s)
                self._states.created(run.uid, now_s)
            case status.RunState.RUNNING:
                self._states.started(run.uid, now_s)
            case status.RunState.ENDED:
                self._done.add(run.uid)
                self._on_ended(run.uid, now_s, is_new=is_new)

    def _note_own(self, run: status.PodRun) -> None:
        if run.state is status.RunState.RUNNING:
            self._own.add(run.uid)
        else:
            self._own.discard(run.uid)

    def _on_ended(self, uid: str, now_s: float, *, is_new: bool) -> None:
        if not is_new and uid not in self._states.known():
            return
        if uid not in self._states.current(now_s).ended:
            # A Pod that ran between two reports of the kubelet is reported as well, so that an advertisement covers it.
            self._states.started(uid, now_s)
        self._states.ended(uid, now_s)
        self._states.removed(uid, now_s)

    def _read(self, pod: dict[str, Any]) -> status.PodRun | None:
        try:
            return status.parse_run(pod, self._baseline_namespaces)
        except ValueError as error:
            self._log.warning("a Pod from the API cannot be parsed", why=str(error))
            return None
