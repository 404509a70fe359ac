"""A cluster in memory with gangs: their Pods, their PodGroups, and which of them run."""

from typing import Any

from carico_core.wire.kubernetes import pod_groups
from tests.tools.memory import memory_objects
from tests.unit.scheduler import objects, world

FOREVER = (10_000.0, 10_000.0)


class GangWorld(world.World):
    """A world in which Pods run until they are told otherwise, led by one of its engines."""

    def __init__(self, *, seed: int = 0, engines: int = 1, fault_share: float = 0.0, room: float = 3.0) -> None:
        self.leader = 0
        super().__init__(seed=seed, engines=engines, fault_share=fault_share, room=room)
        self.pod_s = FOREVER

    def more(self, index: int) -> dict[str, Any]:
        """Only the leader decides; each change of it begins a new term."""
        return {"term": lambda: 1 if index == self.leader else None, "gang_timeout_s": 20.0}

    def member(self, gang: str, name: str, *, least: int | None = None, native: bool = False, **more: Any) -> str:
        """The UID of a new Pod of a gang; `least`: its annotation."""
        made = objects.pod_object(name, **more.pop("spec", {}))
        if native:
            made["spec"]["schedulingGroup"] = {"podGroupName": gang}
        else:
            made["metadata"]["labels"] = {pod_groups.LABEL: gang}
        annotations = {} if least is None else {pod_groups.MIN_MEMBER: str(least)}
        made["metadata"]["annotations"] = annotations | more.pop("annotations", {})
        made["status"] |= more.pop("status", {})
        made["metadata"] |= more.pop("metadata", {})
        return str(self.kube.objects.create("pods", made, "test")["metadata"]["uid"])

    def gang(self, gang: str, pods: int, **more: Any) -> None:
        """A gang that needs all of these Pods."""
        for index in range(pods):
            self.member(gang, f"{gang}-{index}", **({"least": pods} | more))

    def group(self, name: str, *, spec: dict[str, Any], **metadata: Any) -> None:
        """A PodGroup, or its change."""
        made = {"metadata": {"namespace": "default", "name": name} | metadata, "spec": spec}
        if any(each["metadata"]["name"] == name for each in self.all("podgroups")):
            self.kube.objects.update("podgroups", ("default", name), made, "test")
        else:
            self.kube.objects.create("podgroups", made, "test")

    def all(self, plural: str) -> list[dict[str, Any]]:
        """All objects of a collection."""
        return self.kube.objects.all(plural, memory_objects.parse_selector("", {}))

    def running(self, start: str = "") -> list[str]:
        """The names of the Pods that run."""
        found = [pod["metadata"]["name"] for pod in self.pods() if pod["status"].get("phase") == "Running"]
        return sorted(each for each in found if each.startswith(start))

    def notes(self, reason: str, name: str) -> list[str]:
        """The texts of the Events about a Pod."""
        return [
            each["note"]
            for each in self.all("events")
            if each["reason"] == reason and each["regarding"]["name"] == name
        ]

    def end(self, start: str) -> None:
        """The Pods whose names begin so end well."""
        for pod in self.pods():
            if pod["metadata"]["name"].startswith(start):
                self._set_phase(pod, "Succeeded")

    def delete(self, name: str) -> None:
        """A Pod is gone."""
        self.kube.objects.delete("pods", ("default", name), {}, "test")

    def deleted(self) -> int:
        """How many Pods were deleted by requests."""
        return sum(each.startswith("DELETE") for each in self.kube.requests)
