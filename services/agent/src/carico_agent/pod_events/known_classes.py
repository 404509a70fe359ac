"""The class of each Pod on this node, as its source last reported it: other adapters only see UIDs.

A Pod is bound half a second before its container starts, so its class is usually known by then. Until it is, the Pod
counts in the general class.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from carico_core.domain import messages, usage

# The cgroup of a container by runtime and driver: its id, or a scope such as cri-containerd-<id>.scope. CRI-O's monitor
# of a container may have a scope with the same id, crio-conmon-<id>.scope.
_CONTAINER = re.compile(r"(?:(?!crio-conmon-)[a-z-]+-)?([0-9a-f]{12,64})(?:\.scope)?")


class Known(NamedTuple):
    """What is known of a Pod; `pod_class` is None for a Pod of the baseline."""

    uid: str
    pod_class: str | None
    template: usage.Template | None
    has_failed: bool
    # The beginning of each container's id in the runtime, and its name; of a Pod with several.
    containers: Mapping[str, str]


class KnownClasses:
    """Implements `carico_agent.ports.PodClasses`, except `run`, which calls `replace`, `note` and `forget`."""

    def __init__(self) -> None:
        # UID -> class; None for a Pod of the baseline.
        self._classes: dict[str, str | None] = {}
        # Of the same Pods, as far as known.
        self._templates: dict[str, usage.Template] = {}
        self._containers: dict[str, Mapping[str, str]] = {}
        # UIDs of the Pods that have failed, each counted once. Those of the first list were counted by the agent before
        # this one, or failed before it measured anything.
        self._failed: set[str] = set()
        self._has_list = False
        self._failures: list[str] = []
        self._callbacks: list[Callable[[], None]] = []

    def of(self, uid: str) -> str:
        """Return the class of a Pod; the general class if it is unknown."""
        return self._classes.get(uid) or messages.ANY_CLASS

    def is_baseline(self, uid: str) -> bool:
        """Return whether the source has reported that the Pod belongs to its node."""
        return uid in self._classes and self._classes[uid] is None

    def template(self, uid: str) -> usage.Template | None:
        """Return what a Pod is made of."""
        return self._templates.get(uid)

    def container(self, uid: str, folder: str) -> str | None:
        """Return the name of a Pod's container by the folder of its cgroup."""
        template = self._templates.get(uid)
        if template is not None and folder in template.containers:
            # Emulated nodes name a folder after its container.
            return folder
        found = _CONTAINER.fullmatch(folder)
        known = self._containers.get(uid, {})
        return None if found is None else next((name for id_, name in known.items() if found[1].startswith(id_)), None)

    def take_failed(self) -> list[str]:
        """Return the Pods that have failed since the last call."""
        taken, self._failures = self._failures, []
        return taken

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the loop's thread whenever the class of a Pod becomes known."""
        self._callbacks.append(callback)

    def replace(self, pods: Iterable[Known]) -> None:
        """Take in all Pods of the node."""
        before, self._classes = self._classes, {}
        for pod in pods:
            if pod.has_failed and not self._has_list:
                self._failed.add(pod.uid)
            self._note(pod)
        self._has_list = True
        self._failed &= self._classes.keys()
        self._templates = {uid: each for uid, each in self._templates.items() if uid in self._classes}
        self._containers = {uid: each for uid, each in self._containers.items() if uid in self._classes}
        if self._classes != before:
            self._notify()

    def note(self, pod: Known) -> None:
        """Take in one Pod."""
        if self._note(pod):
            self._notify()

    def forget(self, uid: str) -> None:
        """Forget a Pod that is gone."""
        self._classes.pop(uid, None)
        self._templates.pop(uid, None)
        self._containers.pop(uid, None)
        self._failed.discard(uid)

    def _note(self, pod: Known) -> bool:
        """Return whether the Pod's class is new."""
        uid, name = pod.uid, pod.pod_class
        is_new = uid not in self._classes or self._classes[uid] != name
        self._classes[uid] = name
        if name is None:
            return is_new
        if pod.template is not None:
            self._templates[uid] = pod.template
        if pod.containers:
            self._containers[uid] = pod.containers
        if pod.has_failed and uid not in self._failed:
            self._failed.add(uid)
            self._failures.append(uid)
        return is_new

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()
