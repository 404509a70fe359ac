"""Jobs of a local cluster: Pods of one workload with a common label, created directly or as batch/v1 Jobs."""

import asyncio
import collections
import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from carico_core.domain import errors, names
from carico_local.jobs import job_labels
from carico_local.workloads import phases

# The image of the workloads on real nodes; an emulated node uses no image.
IMAGE = "carico/workload:0.1.0"
IN_FLIGHT = 16
# Requests are retried for a minute while the API is unavailable, so that no job stays half submitted.
ASK_AGAIN_S = 0.5
ASKED_FOR_S = 60.0
# A local cluster's Pods have no state to save.
GRACE_S = 2
TRAIN_BYTES = 750_000_000


class Workload(enum.StrEnum):
    """What a job runs."""

    PI = "pi"
    TRAIN = "train"
    MIXED = "mixed"
    SERVER = "server"
    MLP = "mlp"
    IO = "io"
    STAGES = "stages"
    BOOT = "boot"
    CACHE = "cache"
    # The four above in turn.
    WAITING = "waiting"


_WAITING = (Workload.IO, Workload.STAGES, Workload.BOOT, Workload.CACHE)
# Seconds of work on one idle emulated core; of programs that wait, the time alone on a node.
DEFAULT_SECONDS = {
    Workload.PI: 5.0, Workload.TRAIN: 25.0, Workload.MLP: 25.0, Workload.SERVER: 60.0,
    **{kind: phases.alone_s(kind.value) for kind in _WAITING},
}  # fmt: skip
# What a user who measured a Pod requests: its most memory, and the interpreter, whose 30 MB do not shrink with the
# scale of an emulated node (1/8 by default).
MEMORY_REQUESTS = {
    Workload.TRAIN: "1Gi", Workload.MLP: "640Mi", Workload.IO: "384Mi", Workload.STAGES: "640Mi",
    Workload.BOOT: "896Mi", Workload.CACHE: "1536Mi",
}  # fmt: skip
# The published mixed job is 500 pi to 20 train.
MIXED_PI_PER_TRAIN = 25
_PODS_MOST = 100_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job of `pods` Pods. `seconds`: work of one Pod; None: the workload's default.

    `request_millicores`: CPU request of each Pod, with which it also requests the memory that it needs; None: no
    request, as CARICO needs none.
    """

    name: str
    workload: Workload
    pods: int
    seconds: float | None = None
    namespace: str = "default"
    scheduler_name: str = names.SCHEDULER_NAME
    request_millicores: int | None = None
    # Failed containers are restarted on their node.
    restarts: bool = False

    def __post_init__(self) -> None:
        if not names.is_label(self.name) or len(self.name) > 50:
            raise errors.SettingsError(f"job name: got {self.name!r}, expected at most 50 of a-z, 0-9 and '-'")
        if not 1 <= self.pods <= _PODS_MOST:
            raise errors.SettingsError(f"--pods: got {self.pods}, expected 1 to {_PODS_MOST}")
        if self.seconds is not None:
            check_seconds(self.seconds)

    def kind(self, index: int) -> Workload:
        """Return the workload of Pod number `index`."""
        if self.workload is Workload.WAITING:
            return _WAITING[index % len(_WAITING)]
        if self.workload is not Workload.MIXED:
            return self.workload
        # The long Pod comes first in each round: at the end of the job it would keep one core busy and the others idle.
        return Workload.TRAIN if index % (MIXED_PI_PER_TRAIN + 1) == 0 else Workload.PI

    def work_s(self, kind: Workload) -> float:
        """Return the work of one Pod of a kind, in seconds of one emulated core."""
        if self.seconds is not None and (kind is not Workload.TRAIN or self.workload is Workload.TRAIN):
            return self.seconds
        return DEFAULT_SECONDS[kind]

    def core_s(self, kind: Workload) -> float:
        """Return the core-seconds of one Pod of a kind."""
        return self.work_s(kind) * (phases.cores(kind.value) if kind in _WAITING else 1.0)

    @property
    def total_work_s(self) -> float:
        """Core-seconds of the whole job."""
        return sum(self.core_s(self.kind(index)) for index in range(self.pods))

    @property
    def mean_alone_s(self) -> float:
        """Mean time of one Pod alone on a node."""
        return sum(self.work_s(self.kind(index)) for index in range(self.pods)) / self.pods

    @property
    def mean_work_s(self) -> float:
        """Mean core-seconds of one Pod."""
        return self.total_work_s / self.pods


class Api(Protocol):
    """What is needed from the Kubernetes API."""

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        """Return the decoded answer."""
        ...


def check_seconds(seconds: float) -> None:
    """Raise `SettingsError` for a time that no Pod works."""
    if not 0.05 <= seconds <= 86_400:
        raise errors.SettingsError(f"--seconds: got {seconds:g}, expected 0.05 to 86400")


def sized(workload: Workload, *, seconds: float | None, cores: int, target_s: float = 60.0) -> int:
    """Return how many Pods keep `cores` busy for about `target_s`; at least one per core.

    >>> sized(Workload.PI, seconds=None, cores=12)
    132
    >>> sized(Workload.MIXED, seconds=None, cores=12)
    113
    """
    # One round of a mixed job is representative; in other jobs all Pods are the same.
    pods = len(_WAITING) if workload is Workload.WAITING else MIXED_PI_PER_TRAIN + 1
    round_of = Job(name="sized", workload=workload, pods=pods, seconds=seconds)
    return max(cores, round((target_s - round_of.mean_alone_s) / round_of.mean_work_s * cores))


def manifests(job: Job) -> Iterator[dict[str, Any]]:
    """Yield the manifests of a job's Pods, for an API without a Job controller."""
    width = len(str(job.pods - 1))
    for index in range(job.pods):
        template = _template(job, job.kind(index))
        template["metadata"] |= {"name": f"{job.name}-{index:0{width}d}", "namespace": job.namespace}
        yield {"apiVersion": "v1", "kind": "Pod", **template}


def batch_manifests(job: Job) -> Iterator[dict[str, Any]]:
    """Yield the manifests of batch/v1 Jobs: one, or one per kind for a mixed job. Each Pod is tried once."""
    counts = collections.Counter(job.kind(index) for index in range(job.pods))
    for kind, pods in counts.items():
        yield {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": job.name if len(counts) == 1 else f"{job.name}-{kind.value}",
                "namespace": job.namespace,
                "labels": {job_labels.JOB_LABEL: job.name, job_labels.WORKLOAD_LABEL: kind.value},
            },
            "spec": {
                "completions": pods,
                "parallelism": pods,
                # A failed Pod counts as a result, as for Pods without a Job. Without indexes, one failure would end all
                # other Pods.
                "completionMode": "Indexed",
                **({} if job.restarts else {"backoffLimitPerIndex": 0}),
                "template": _template(job, kind),
            },
        }


def _template(job: Job, kind: Workload) -> dict[str, Any]:
    work_s = job.work_s(kind)
    container: dict[str, Any] = {"name": "workload", "image": IMAGE, "command": _command(kind, work_s)}
    if job.request_millicores is not None:
        memory = {"memory": MEMORY_REQUESTS[kind]} if kind in MEMORY_REQUESTS else {}
        container["resources"] = {"requests": {"cpu": f"{job.request_millicores}m", **memory}}
    return {
        "metadata": {
            # By the last of these labels, agents and scheduler distinguish classes of Pods without an owner.
            "labels": {
                job_labels.JOB_LABEL: job.name,
                job_labels.WORKLOAD_LABEL: kind.value,
                job_labels.APP_LABEL: kind.value,
            },
            "annotations": {job_labels.WORK_ANNOTATION: f"{work_s:g}s"},
        },
        "spec": {
            "schedulerName": job.scheduler_name,
            "restartPolicy": "OnFailure" if job.restarts else "Never",
            "terminationGracePeriodSeconds": GRACE_S,
            "containers": [container],
        },
    }


async def has_controller(api: Api) -> bool:
    """Return True where the API has batch/v1 Jobs: a real control plane does, the embedded API does not."""
    try:
        await api.request("GET", "/apis/batch/v1")
    except errors.NotFound:
        return False
    return True


async def submit(api: Api, job: Job, *, batch: bool = False, ask_again_s: float = ASK_AGAIN_S) -> int:
    """Create the job's objects; return how many. Raises `Conflict` where a name is taken, and `ApiUnavailable`.

    batch: create batch/v1 Jobs, whose Pods the real control plane's Job controller creates later.
    """
    path = f"/apis/batch/v1/namespaces/{job.namespace}/jobs" if batch else f"/api/v1/namespaces/{job.namespace}/pods"
    return await create_all(api, path, batch_manifests(job) if batch else manifests(job), ask_again_s=ask_again_s)


async def create_all(
    api: Api, path: str, objects: Iterable[dict[str, Any]], *, ask_again_s: float = ASK_AGAIN_S
) -> int:
    """Create objects, oldest first and several at a time; return how many. Raises as `submit`."""
    waiting = list(objects)
    count = len(waiting)
    waiting.reverse()

    async def create() -> None:
        while waiting:
            await _create(api, path, waiting.pop(), ask_again_s=ask_again_s)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(IN_FLIGHT, len(waiting))):
                group.create_task(create())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return count


async def _create(api: Api, path: str, manifest: dict[str, Any], *, ask_again_s: float) -> None:
    """Create the object; retry while the API is unavailable."""
    unanswered: errors.ApiUnavailable | None = None
    try:
        # A time limit rather than a number of tries: a frozen API fails only after seconds each time.
        async with asyncio.timeout(ASKED_FOR_S):
            while True:
                try:
                    await api.request("POST", path, body=manifest)
                    return
                except errors.Conflict:
                    # An earlier try created it, and its answer was lost.
                    if unanswered:
                        return
                    raise
                except errors.ApiUnavailable as error:
                    unanswered = error
                    await asyncio.sleep(ask_again_s)
    except TimeoutError:
        raise unanswered or errors.ApiUnavailable(f"POST {path}: no answer for {ASKED_FOR_S:g} s") from None


def _command(kind: Workload, work_s: float) -> list[str]:
    return ["carico-workload", kind.value, "--seconds", f"{work_s:g}"]
