"""Jobs of a local cluster: Pods of one workload under one label, created through the Kubernetes API."""

import asyncio
import dataclasses
import enum
from collections.abc import Iterator
from typing import Any, Protocol

from carico_core.domain import cluster, errors, names

JOB_LABEL = "carico.dev/job"
WORKLOAD_LABEL = "carico.dev/workload"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
APP_LABEL = "app.kubernetes.io/name"
# Any image is "present" on an emulated node; this one names what the workloads ship in on a real one.
IMAGE = "carico/workload:0.1.0"
IN_FLIGHT = 16
# A local cluster's Pods have no state to save.
GRACE_S = 2
TRAIN_BYTES = 750_000_000


class Workload(enum.StrEnum):
    """What a job runs."""

    PI = "pi"
    TRAIN = "train"
    MIXED = "mixed"
    SERVER = "server"


# Seconds of work on one idle emulated core (design, section 11).
DEFAULT_SECONDS = {Workload.PI: 5.0, Workload.TRAIN: 25.0, Workload.SERVER: 60.0}
# The published mixed job is 500 pi to 20 train.
MIXED_PI_PER_TRAIN = 25
_PODS_MOST = 100_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`pods` Pods of one workload. `seconds`: work of one Pod; None: the workload's own."""

    name: str
    workload: Workload
    pods: int
    seconds: float | None = None
    namespace: str = "default"

    def __post_init__(self) -> None:
        if not names.is_label(self.name) or len(self.name) > 50:
            raise errors.SettingsError(f"job name: got {self.name!r}, expected at most 50 of a-z, 0-9 and '-'")
        if not 1 <= self.pods <= _PODS_MOST:
            raise errors.SettingsError(f"--pods: got {self.pods}, expected 1 to {_PODS_MOST}")
        if self.seconds is not None and not 0.05 <= self.seconds <= 86_400:
            raise errors.SettingsError(f"--seconds: got {self.seconds:g}, expected 0.05 to 86400")

    def kind(self, index: int) -> Workload:
        """What the Pod number `index` runs."""
        if self.workload is not Workload.MIXED:
            return self.workload
        # The long Pod leads its round: at the end of the job it would keep one core busy while all others are idle.
        return Workload.TRAIN if index % (MIXED_PI_PER_TRAIN + 1) == 0 else Workload.PI

    def work_s(self, kind: Workload) -> float:
        """Work of one Pod of a kind, in seconds of one emulated core."""
        if self.seconds is not None and (kind is not Workload.TRAIN or self.workload is Workload.TRAIN):
            return self.seconds
        return DEFAULT_SECONDS[kind]

    @property
    def total_work_s(self) -> float:
        """Core-seconds of the whole job."""
        return sum(self.work_s(self.kind(index)) for index in range(self.pods))

    @property
    def mean_work_s(self) -> float:
        """Work of one Pod, the mean where they differ."""
        return self.total_work_s / self.pods


class Api(Protocol):
    """What is needed of the Kubernetes API."""

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        """The decoded answer."""
        ...


def sized(workload: Workload, *, seconds: float | None, cores: int, target_s: float = 60.0) -> int:
    """How many Pods keep `cores` busy for about `target_s`, one Pod's time included; at least one a core.

    >>> sized(Workload.PI, seconds=None, cores=12)
    132
    >>> sized(Workload.MIXED, seconds=None, cores=12)
    113
    """
    # One round of a mixed job stands for all of it; any other job is the same Pod throughout.
    round_of = Job(name="sized", workload=workload, pods=MIXED_PI_PER_TRAIN + 1, seconds=seconds)
    return max(cores, round((target_s - round_of.mean_work_s) / round_of.mean_work_s * cores))


def manifests(job: Job) -> Iterator[dict[str, Any]]:
    """The Pods of a job, as they are sent to the API."""
    width = len(str(job.pods - 1))
    for index in range(job.pods):
        kind = job.kind(index)
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{job.name}-{index:0{width}d}",
                "namespace": job.namespace,
                # By the last of these labels agents and scheduler tell classes apart, as these Pods have no owner.
                "labels": {JOB_LABEL: job.name, WORKLOAD_LABEL: kind.value, APP_LABEL: kind.value},
            },
            "spec": {
                "schedulerName": cluster.SCHEDULER_NAME,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": GRACE_S,
                "containers": [{"name": "workload", "image": IMAGE, "command": _command(kind, job.work_s(kind))}],
            },
        }


async def submit(api: Api, job: Job) -> int:
    """How many Pods were created. Raises `Conflict` where the job's name is taken."""
    path = f"/api/v1/namespaces/{job.namespace}/pods"
    waiting = list(reversed(list(manifests(job))))
    created = 0

    async def create() -> None:
        nonlocal created
        while waiting:
            await api.request("POST", path, body=waiting.pop())
            created += 1

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(IN_FLIGHT, job.pods)):
                group.create_task(create())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return created


def _command(kind: Workload, work_s: float) -> list[str]:
    return ["carico-workload", kind.value, "--seconds", f"{work_s:g}"]
