"""The cluster on which trials run: its API, its Pods as an observer sees them, and its agents."""

import asyncio
import contextlib
import dataclasses
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_local.jobs import job_labels
from carico_local.jobs import observer as observers

CLEAR_MOST_S = 60.0


class Api(observers.Api, api_actions.Api, Protocol):
    """What is needed from the Kubernetes API."""


async def delete_all(api: api_actions.Api, path: str, selector: str, *, within_s: float) -> None:
    """Delete the objects of a collection that a label selector chooses."""
    # The API server answers once it has deleted all of them, one after the other.
    await api.request("DELETE", path, params={"labelSelector": selector}, timeout_s=within_s)


class Named(Protocol):
    """What a job is found by."""

    @property
    def name(self) -> str:
        """The value of its Pods' label."""
        ...

    @property
    def namespace(self) -> str:
        """Where its Pods are."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Testbed:
    """One cluster. `agents`: process ids of the agents; `bound_s`: of the job, see `report.figures`.

    `servers_millicores`: request of each server that runs next to a job; None: no request.
    """

    api: Api
    observer: observers.Observer
    clock: clocks.Clock
    nodes: Sequence[str]
    agents: Sequence[int]
    bound_s: float
    servers_millicores: int | None = None

    async def until(self, is_so: Callable[[], bool], most_s: float) -> None:
        """Wait until a condition on the observer holds. Raises `TimeoutError`."""
        async with asyncio.timeout(most_s):
            while not is_so():
                self.observer.changed.clear()
                await self.observer.changed.wait()

    async def clear(self, job: Named) -> None:
        """Delete every Pod of the job and wait until all are gone."""
        path = f"/api/v1/namespaces/{job.namespace}/pods"
        await delete_all(self.api, path, f"{job_labels.JOB_LABEL}={job.name}", within_s=CLEAR_MOST_S)
        await self.until(lambda: all(pod.gone for pod in self.observer.of_job(job.name)), CLEAR_MOST_S)

    @contextlib.contextmanager
    def without_agents(self) -> Iterator[None]:
        """Stop the agents (SIGSTOP) for the duration of the block."""
        for pid in self.agents:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in self.agents:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
