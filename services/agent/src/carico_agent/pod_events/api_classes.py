"""The class of each Pod on this node, from the Kubernetes API.

It needs the right to list all Pods of the cluster, which RBAC cannot limit to one node.
"""

from collections.abc import Set
from typing import Any

from carico_agent import settings
from carico_agent.pod_events import known_classes, kubernetes
from carico_core.domain import names
from carico_core.runtime.kube import api_client
from carico_core.runtime.observe import client_metrics, logs
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects
from carico_core.wire.kubernetes.pods import ownership


def open_classes(chosen: settings.AgentSettings, *, clock: clocks.Clock, metrics: metric.Metrics) -> "ApiClasses":
    """Return the classes of the Pods bound to the agent's Node."""
    asked = client_metrics.KubeMetrics(metrics).asked
    connect = kubernetes.connector(chosen, clock=clock, observe=asked)
    return ApiClasses(chosen.node, connect=connect, baseline_namespaces=frozenset(chosen.baseline_namespaces))


class ApiClasses(known_classes.KnownClasses):
    """Implements `carico_agent.ports.PodClasses`."""

    def __init__(
        self, node: str, *, connect: kubernetes.Connect, baseline_namespaces: Set[str] = frozenset()
    ) -> None:  # fmt: skip
        super().__init__()
        self._node = node
        self._baseline_namespaces = baseline_namespaces
        self._connect = connect
        self._log = logs.get("classes")

    async def run(self) -> None:
        """Keep the classes up to date until cancelled; they stay while the API is away. Raises `KubeconfigError`."""
        await kubernetes.follow(self._node, self._connect, self._take)

    def _take(self, event: api_client.MirrorEvent) -> None:
        match event:
            case api_client.Listed(objects=objects):
                self.replace([found for pod in objects if (found := self._read(pod)) is not None])
            case api_client.Changed(type=kind, object=pod):
                found = self._read(pod)
                if found is None:
                    return
                if kind == "DELETED":
                    self.forget(found.uid)
                else:
                    self.note(found)

    def _read(self, pod: dict[str, Any]) -> known_classes.Known | None:
        try:
            found = api_objects.parse_pod(pod)
        except ValueError as error:
            self._log.warning("a Pod from the API cannot be parsed", why=str(error))
            return None
        is_own = ownership.belongs_to_node(pod, self._baseline_namespaces)
        return known_classes.Known(
            uid=found.uid_on_node, pod_class=None if is_own else names.class_of(found), template=found.template,
            has_failed=found.has_failed, containers=dict(found.containers),
        )  # fmt: skip
