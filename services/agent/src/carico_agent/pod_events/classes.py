"""The class of each Pod on this node, from the Kubernetes API: other sources only show UIDs.

A Pod is bound half a second before its container starts, so its class is usually known by then. Until it is, the Pod
counts in the general class.
"""

import collections
from collections.abc import Callable, Mapping, Set
from typing import Any

from carico_agent import settings
from carico_agent.pod_events import kubernetes
from carico_core.domain import messages, names, usage
from carico_core.runtime.kube import api_client
from carico_core.runtime.observe import client_metrics, logs
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects, status, template

# On a mirror Pod: the UID of the static Pod in the runtime.
# https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-config-hash
STATIC_UID_ANNOTATION = "kubernetes.io/config.hash"

# Templates of the newest classes are kept; a node has fewer classes than Pods.
TEMPLATES_MOST = 512


def open_classes(chosen: settings.AgentSettings, *, clock: clocks.Clock, metrics: metric.Metrics) -> "PodClasses":
    """Return the classes of the Pods bound to the agent's Node."""
    asked = client_metrics.KubeMetrics(metrics).asked
    connect = kubernetes.connector(chosen, clock=clock, observe=asked)
    return PodClasses(chosen.node, connect=connect, baseline_namespaces=frozenset(chosen.baseline_namespaces))


class PodClasses:
    """Implements `carico_agent.ports.PodClasses`."""

    def __init__(
        self, node: str, *, connect: kubernetes.Connect, baseline_namespaces: Set[str] = frozenset()
    ) -> None:  # fmt: skip
        self._node = node
        self._baseline_namespaces = baseline_namespaces
        self._connect = connect
        # UID -> class; None for a Pod of the baseline.
        self._classes: dict[str, str | None] = {}
        # Of the classes with Pods on this node: bounded, as Pods are.
        self._templates: dict[str, usage.Template] = {}
        # UIDs of the Pods that have failed, each counted once.
        self._failed: set[str] = set()
        self._failures: collections.Counter[str] = collections.Counter()
        self._callbacks: list[Callable[[], None]] = []
        self._log = logs.get("classes")

    def of(self, uid: str) -> str:
        """Return the class of a Pod; the general class if the API has not shown it."""
        return self._classes.get(uid) or messages.ANY_CLASS

    def is_baseline(self, uid: str) -> bool:
        """Return whether the API shows that the Pod belongs to its node."""
        return uid in self._classes and self._classes[uid] is None

    def template(self, pod_class: str) -> usage.Template | None:
        """Return what the newest Pod of a class is made of."""
        return self._templates.get(pod_class)

    def take_failed(self) -> Mapping[str, int]:
        """Return how many Pods of each class have failed since the last call."""
        taken, self._failures = self._failures, collections.Counter()
        return taken

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the loop's thread whenever the class of a Pod becomes known."""
        self._callbacks.append(callback)

    async def run(self) -> None:
        """Keep the classes up to date until cancelled; they stay while the API is away. Raises `KubeconfigError`."""
        await kubernetes.follow(self._node, self._connect, self._take)

    def _take(self, event: api_client.MirrorEvent) -> None:
        match event:
            case api_client.Listed(objects=objects):
                known, self._classes = self._classes, {}
                for pod in objects:
                    self._note(pod)
                self._failed &= self._classes.keys()
                current = set(self._classes.values())
                self._templates = {name: each for name, each in self._templates.items() if name in current}
                if self._classes != known:
                    self._notify()
            case api_client.Changed(type="DELETED", object=pod):
                self._classes.pop(_uid_on_node(pod), None)
                self._failed.discard(_uid_on_node(pod))
            case api_client.Changed(object=pod):
                if self._note(pod):
                    self._notify()

    def _note(self, pod: dict[str, Any]) -> bool:
        """Return whether the Pod's class is new."""
        try:
            found, made_of = api_objects.parse_pod(pod), template.parse_template(pod)
            has_failed = status.has_failed(pod)
        except ValueError as error:
            self._log.warning("a Pod from the API cannot be parsed", why=str(error))
            return False
        is_own = api_objects.belongs_to_node(pod, self._baseline_namespaces)
        uid, name = _uid_on_node(pod), None if is_own else names.class_of(found)
        is_new = uid not in self._classes or self._classes[uid] != name
        self._classes[uid] = name
        if name is not None:
            self._note_template(name, made_of, is_new=is_new)
            if has_failed and uid not in self._failed:
                self._failed.add(uid)
                self._failures[name] += 1
        return is_new

    def _note_template(self, name: str, made_of: usage.Template, *, is_new: bool) -> None:
        # A Pod of an older template that changes is no newer Pod.
        if not is_new and name in self._templates:
            return
        self._templates.pop(name, None)
        self._templates[name] = made_of
        while len(self._templates) > TEMPLATES_MOST:
            del self._templates[next(iter(self._templates))]

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()


def _uid_on_node(pod: dict[str, Any]) -> str:
    """Return the UID of the Pod in the node's runtime."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    return str(annotations.get(STATIC_UID_ANNOTATION) or metadata.get("uid", ""))
