"""Asks the Kubernetes API for a job's Pods, and for what it has kept of those that are gone and of why they waited."""

import asyncio
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from carico_cli.explain import asking, job_text
from carico_cli.jobs import refusals
from carico_cli.live import addresses, connection, object_events
from carico_cli.shell import settings
from carico_core.domain import errors, names
from carico_core.runtime.kube import paged_lists
from carico_core.runtime.process import clock as clocks
from carico_local.jobs import job_labels

_LABEL_MOST = 63
# `carico submit` creates one Job for each program.
_JOBS_MOST = 8


async def explain(
    at: addresses.Address, context: settings.Context, namespace: str, name: str
) -> dict[str, Any]:  # fmt: skip
    """Return where a job's time went. Raises `SettingsError` where no Pod belongs to it, `ApiUnavailable`."""
    clock = clocks.SystemClock()
    try:
        async with connection.api_of(at, clock, context.environ, name=asking.USER_AGENT) as api:
            found = await pods_of(api, namespace, name)
            if found.own:
                created, said = await asyncio.gather(
                    _jobs(api, namespace, {job_text.owner(pod) for pod in found.own}),
                    _failures(api, namespace, found.own),
                )
                return job_text.answer(
                    name, found.own, now_s=clock.wall_ns() / 1e9, jobs=created, said=said.newest, unread=_unread(said)
                )
            job = await refusals.find_job(api, namespace, name)
            why = await refusals.of_job(api, job)
            ended = job_text.counted(job_text.gone((), [] if job is None else [job]))
    except errors.ApiUnavailable as error:
        raise errors.ApiUnavailable(f"job {name}: {error}; {at.look}") from None
    known = sorted(found.others - {job_labels.OTHERS})
    near = (names.nearest(name, known) or known)[: asking.NEAREST_MOST]
    hint = f" (nearest: {', '.join(near)})" if near else ""
    refused = "" if why is None else f"; the API refuses its Pods: {why}"
    gone = f"; the Job has counted {ended}, which no longer exist" if ended else ""
    raise errors.SettingsError(f"job {name!r}{hint}: no Pod in namespace {namespace!r} belongs to it{gone}{refused}")


async def _jobs(api: paged_lists.Api, namespace: str, jobs: Set[str]) -> list[Mapping[str, Any]]:
    """Return the batch/v1 Jobs of these names; without those that are gone, or cannot be read now or by this user."""
    some = sorted(jobs - {""})[:_JOBS_MOST]
    found = await asyncio.gather(*(refusals.find_job(api, namespace, name) for name in some))
    return [job for job in found if job is not None]


async def _failures(
    api: paged_lists.Api, namespace: str, pods: Sequence[Mapping[str, Any]]
) -> object_events.Found:  # fmt: skip
    """Return the Events that say why Pods waited. A Pod's condition says it only while the Pod waits."""
    if not job_text.has_waited(pods):
        # A namespace may have thousands of other Pods that wait.
        return object_events.Found(newest=[], earlier=0)
    about = {pod["metadata"].get("uid") for pod in pods}
    try:
        return await object_events.newest(api, namespace, "reason=FailedScheduling", about=about)
    except errors.CaricoError as error:
        return object_events.Found(newest=[], earlier=0, unread=f"none can be read: {error}")


def _unread(said: object_events.Found) -> str | None:
    """Return what of the Events is not known; None if all that are kept are."""
    left_out = f"of {len(said.newest) + said.earlier}, the newest {len(said.newest)} were taken"
    return said.unread or (left_out if said.earlier else None)


class Pods(NamedTuple):
    """A job's Pods; where there are none, the namespace's other jobs."""

    own: list[Mapping[str, Any]]
    others: set[str]


async def pods_of(api: paged_lists.Api, namespace: str, name: str) -> Pods:
    """Return the Pods of a job; where it has none, the namespace's other jobs. Raises `CaricoError`."""

    async def listed(read: paged_lists.Read | None = None, **params: str) -> list[Any]:
        path = f"/api/v1/namespaces/{namespace}/pods"
        return (await paged_lists.list_all(api, path, params=params, read=read, timeout_s=asking.ANSWER_MOST_S)).objects

    # A longer name is no value of a label: the API would refuse the question.
    for label in job_labels.JOB_LABELS if len(name) <= _LABEL_MOST else ():
        found = await listed(labelSelector=f"{label}={name}")
        own = [pod for pod in found if job_labels.job_of(pod["metadata"]) == name]
        if own:
            return Pods(own, set())
    return Pods([], set(await listed(lambda pod: job_labels.job_of(pod["metadata"]))))
