"""Pod events from the Kubernetes API. Pods that belong to the node are left out of the count.

Late by what the kubelet and the API add: a Pod shows as created when it is bound, as running and as ended when the
kubelet has said so, after the runtime's own spikes. The API does not say when a sandbox is removed, so the hold after
an exit ends 300 ms after it. Pods that had ended before the agent started are not news, and are left out.
"""

import dataclasses
from collections.abc import Set
from typing import Any

from carico_agent import settings
from carico_agent.pod_events import adapter, node_pods, pod_states
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import status


def open_pods(chosen: settings.AgentSettings, *, clock: clocks.Clock) -> "KubernetesPods":
    """Return the adapter for these settings: the Pods bound to the agent's Node."""
    return KubernetesPods(
        chosen.node, clock=clock, connect=node_pods.connector(chosen, clock=clock),
        baseline_namespaces=frozenset(chosen.baseline_namespaces),
    )  # fmt: skip


class KubernetesPods(adapter.Adapter):
    """See `carico_agent.ports.PodEvents`."""

    def __init__(
        self, node: str, *, clock: clocks.Clock, connect: node_pods.Connect, baseline_namespaces: Set[str] = frozenset()
    ) -> None:  # fmt: skip
        super().__init__("kubernetes", clock=clock)
        self._baseline_namespaces = baseline_namespaces
        # UIDs of the node's own Pods that run.
        self._own: set[str] = set()
        self._node = node
        self._connect = connect
        # Pods of the API that have ended: they stay there, and what still changes about them is no event of theirs.
        self._done: set[str] = set()
        self._away = False

    def current(self) -> pod_states.PodSet:
        """Return the Pods now; while the API is away, those of before."""
        return dataclasses.replace(super().current(), baseline=frozenset(self._own))

    async def run(self) -> None:
        """Keep `current` up to date until cancelled. Raises `KubeconfigError`."""
        await node_pods.follow(self._node, self._connect, self._take)

    def _take(self, event: api_client.MirrorEvent) -> None:
        match event:
            case api_client.Listed(objects=objects):
                self._on_list(objects)
            case api_client.Changed(type="DELETED", object=pod):
                self._on_deleted(pod)
            case api_client.Changed(object=pod):
                self._on_pod(pod, is_news=True)
            case api_client.Away(error=error):
                self._away = True
                self._log.warning("the API is away: Pods are those of before", why=str(error))

    def _on_list(self, objects: list[dict[str, Any]]) -> None:
        if self._away:
            self._away = False
            self._log.info("the API is back")
        listed = {run.uid for pod in objects if (run := self._read(pod)) is not None}
        for uid in self._states.known() - listed:
            self._states.removed(uid, self._clock.monotonic_s())
        self._done &= listed
        self._own &= listed
        for pod in objects:
            self._on_pod(pod, is_news=False)

    def _on_deleted(self, pod: dict[str, Any]) -> None:
        run = self._read(pod)
        if run is None:
            return
        self._own.discard(run.uid)
        if run.uid not in self._done and not run.is_baseline:
            self._states.removed(run.uid, self._clock.monotonic_s())
        self._done.discard(run.uid)

    def _on_pod(self, pod: dict[str, Any], *, is_news: bool) -> None:
        run = self._read(pod)
        if run is not None and run.is_baseline:
            self._note_own(run)
        if run is None or run.is_baseline or run.uid in self._done:
            return
        now_s = self._clock.monotonic_s()
        match run.state:
            case status.State.WAITING:
                # A container that ended and starts again counts as ended in between.
                self._states.ended(run.uid, now_s)
                self._states.created(run.uid, now_s)
            case status.State.RUNNING:
                self._states.started(run.uid, now_s)
            case status.State.ENDED:
                self._done.add(run.uid)
                self._on_ended(run.uid, now_s, is_news=is_news)

    def _note_own(self, run: status.Run) -> None:
        if run.state is status.State.RUNNING:
            self._own.add(run.uid)
        else:
            self._own.discard(run.uid)

    def _on_ended(self, uid: str, now_s: float, *, is_news: bool) -> None:
        if not is_news and uid not in self._states.known():
            return
        if uid not in self._states.current(now_s).ended:
            # Also one that ran between two messages of the kubelet: reported, so that what covers it is published.
            self._states.started(uid, now_s)
        self._states.ended(uid, now_s)
        self._states.removed(uid, now_s)

    def _read(self, pod: dict[str, Any]) -> status.Run | None:
        try:
            return status.parse_run(pod, self._baseline_namespaces)
        except ValueError as error:
            self._log.warning("a Pod of the API cannot be read", why=str(error))
            return None
