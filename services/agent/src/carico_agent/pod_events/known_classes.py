"""The class of each Pod on this node, as its source last reported it: other adapters only see UIDs.

A Pod is bound half a second before its container starts, so its class is usually known by then. Until it is, the Pod
counts in the general class.
"""

import collections
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from carico_core.domain import messages, usage

# Templates of the newest classes are kept; a node has fewer classes than Pods.
TEMPLATES_MOST = 512


class Known(NamedTuple):
    """What is known of a Pod; `pod_class` is None for a Pod of the baseline."""

    uid: str
    pod_class: str | None
    template: usage.Template | None
    has_failed: bool


class KnownClasses:
    """Implements `carico_agent.ports.PodClasses`, except `run`, which calls `replace`, `note` and `forget`."""

    def __init__(self) -> None:
        # UID -> class; None for a Pod of the baseline.
        self._classes: dict[str, str | None] = {}
        # Of the classes with Pods on this node: bounded, as Pods are.
        self._templates: dict[str, usage.Template] = {}
        # UIDs of the Pods that have failed, each counted once.
        self._failed: set[str] = set()
        self._failures: collections.Counter[str] = collections.Counter()
        self._callbacks: list[Callable[[], None]] = []

    def of(self, uid: str) -> str:
        """Return the class of a Pod; the general class if it is unknown."""
        return self._classes.get(uid) or messages.ANY_CLASS

    def is_baseline(self, uid: str) -> bool:
        """Return whether the source has reported that the Pod belongs to its node."""
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

    def replace(self, pods: Iterable[Known]) -> None:
        """Take in all Pods of the node."""
        before, self._classes = self._classes, {}
        for pod in pods:
            self._note(pod)
        self._failed &= self._classes.keys()
        current = set(self._classes.values())
        self._templates = {name: each for name, each in self._templates.items() if name in current}
        if self._classes != before:
            self._notify()

    def note(self, pod: Known) -> None:
        """Take in one Pod."""
        if self._note(pod):
            self._notify()

    def forget(self, uid: str) -> None:
        """Forget a Pod that is gone."""
        self._classes.pop(uid, None)
        self._failed.discard(uid)

    def _note(self, pod: Known) -> bool:
        """Return whether the Pod's class is new."""
        uid, name = pod.uid, pod.pod_class
        is_new = uid not in self._classes or self._classes[uid] != name
        self._classes[uid] = name
        if name is None:
            return is_new
        # A Pod of an older template that changes is no newer Pod.
        if pod.template is not None and (is_new or name not in self._templates):
            self._templates.pop(name, None)
            self._templates[name] = pod.template
            while len(self._templates) > TEMPLATES_MOST:
                del self._templates[next(iter(self._templates))]
        if pod.has_failed and uid not in self._failed:
            self._failed.add(uid)
            self._failures[name] += 1
        return is_new

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()
