"""Waits for a job that was submitted: its progress, what keeps it waiting, and what became of it."""

import asyncio
import collections
import statistics
from collections.abc import Callable, Sequence

from carico_cli.jobs import refusals
from carico_cli.live import addresses, connection
from carico_cli.output import formats
from carico_core.domain import amounts, errors
from carico_local.jobs import facts
from carico_local.jobs import job as jobs

_PROGRESS_EVERY_S = 2.0
# In a healthy cluster Pods of these workloads start and end more often.
_STILL_S = 60.0
# At most this many Pods that did not succeed are named.
_NAMED_MOST = 10
# Nodes that are named; a large cluster has thousands.
_NODES_MOST = 8
# Takes for how long the API has been away.
WhyGone = Callable[[float], str | None]


async def wait(
    live: connection.ApiSession, job: jobs.Job, *, why_gone: WhyGone, at: addresses.Address, batch: bool = False
) -> int:  # fmt: skip
    """Wait for the job; return the exit code.

    at: the cluster, which advice names. batch: a controller creates the Pods, some of which may be missing.
    """
    tasks = [asyncio.ensure_future(live.observer.follow_pods(live.api))]
    if batch:
        tasks.append(asyncio.ensure_future(_report_refusals(live, job)))
    outage, stillness = _Outage(live, job), _Stillness(live, job, at)
    said = -1
    try:
        while True:
            pods = live.observer.of_job(job.name)
            done = sum(pod.is_terminal for pod in pods)
            if done != said:
                said = done
                formats.say(f"job {job.name}: {done} of {job.pods} done")
            if done >= job.pods:
                return _result(job, pods)
            away_s = outage.lasted_s()
            if away_s is None:
                stillness.look(pods)
            why = None if away_s is None else why_gone(away_s)
            if why is not None:
                raise errors.ApiUnavailable(f"job {job.name}: {done} of {job.pods} done, and {why}")
            ended, _ = await asyncio.wait(tasks, timeout=_PROGRESS_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _report_refusals(live: connection.ApiSession, job: jobs.Job) -> None:
    """Print why the API refuses Pods of the job, each reason once, until cancelled."""
    said: set[str] = set()
    names = [made["metadata"]["name"] for made in jobs.batch_manifests(job)]
    while True:
        await asyncio.sleep(_PROGRESS_EVERY_S)
        missing = job.pods - len(live.observer.of_job(job.name))
        for name in names if missing > 0 else ():
            why = await refusals.of_job(live.api, await refusals.find_job(live.api, job.namespace, name))
            # Without what differs with each try: the amount in use, or the Pod's name.
            kind = "" if why is None else why.partition(",")[0].partition(f"{job.name}-")[0]
            if kind and kind not in said:
                said.add(kind)
                refused = f"{missing} of {job.pods} Pods do not exist, because the API refuses them"
                formats.say(f"job {job.name}: {refused}: {why}; still waiting", err=True)


def _result(job: jobs.Job, pods: Sequence[facts.PodFacts]) -> int:
    """Print what became of the job, and which Pods did not succeed; return the exit code."""
    formats.say("\n".join(summary(job.name, pods)))
    bad = [pod for pod in pods if pod.phase != "Succeeded"]
    for line in unsuccessful(job.name, bad):
        formats.say(line, err=True)
    return int(bool(bad))


def summary(name: str, pods: Sequence[facts.PodFacts]) -> list[str]:
    """Return the summary of a job whose Pods have all ended."""
    succeeded = sum(pod.phase == "Succeeded" for pod in pods)
    ends = [pod.terminal_s for pod in pods if pod.terminal_s is not None]
    took = f" in {max(ends) - min(pod.created_s for pod in pods):.1f} s" if ends else ""
    found = [f"job {name}: {succeeded} of {amounts.plural(len(pods), 'Pod')} succeeded{took}"]
    times_s = [pod.time_s for pod in pods if pod.time_s is not None]
    # A Pod waits for a node and then for its process to start.
    waits_s = [pod.started_s - pod.created_s for pod in pods if pod.started_s is not None]
    if times_s:
        found.append(f"  a Pod ran {_spread(times_s)}")
    if waits_s:
        found.append(f"  and waited {_spread([max(each, 0.0) for each in waits_s])} before it started")
    on = collections.Counter(pod.node for pod in pods if pod.node is not None)
    if on:
        named = sorted(on, key=formats.natural)
        more = f" and on {len(named) - _NODES_MOST} more nodes" if len(named) > _NODES_MOST else ""
        found.append(f"  Pods by node: {', '.join(f'{node} {on[node]}' for node in named[:_NODES_MOST])}{more}")
    return found


def _spread(values_s: Sequence[float]) -> str:
    """Return mean and largest.

    >>> _spread([1.0, 2.0])
    '1.5 s on average, 2.0 s at most'
    """
    return f"{statistics.fmean(values_s):.1f} s on average, {max(values_s):.1f} s at most"


class _Outage:
    """Measures how long the API has been away; prints when it goes away and when it is back."""

    def __init__(self, live: connection.ApiSession, job: jobs.Job) -> None:
        self._live = live
        self._job = job
        self._since_s: float | None = None

    def lasted_s(self) -> float | None:
        """Return for how long the API has been away; None while it answers."""
        away, now_s = self._live.observer.api_away, self._live.clock.monotonic_s()
        if (away is None) is not (self._since_s is None):
            self._since_s = None if away is None else now_s
            said = "the API is back" if away is None else f"{away}; still waiting"
            formats.say(f"job {self._job.name}: {said}", err=True)
        return None if self._since_s is None else now_s - self._since_s


class _Stillness:
    """Prints what a job's Pods wait for, once each time the job makes no progress."""

    def __init__(self, live: connection.ApiSession, job: jobs.Job, at: addresses.Address) -> None:
        self._live = live
        self._at = at
        self._job = job
        self._seen: object = None
        self._since_s = 0.0
        self._said = False

    def look(self, pods: Sequence[facts.PodFacts]) -> None:
        """Print a line on stderr if nothing has happened to these Pods for `_STILL_S`."""
        seen, now_s = [(pod.name, pod.phase, pod.node) for pod in pods], self._live.clock.monotonic_s()
        if seen != self._seen:
            self._seen, self._since_s, self._said = seen, now_s, False
        pending = [pod for pod in pods if pod.phase == "Pending" and not pod.is_terminal]
        if self._said or not pending or now_s - self._since_s < _STILL_S:
            return
        self._said = True
        bound = [pod for pod in pending if pod.node]
        what = [f"{len(pending) - len(bound)} without a node"] if len(bound) < len(pending) else []
        what += [f"{len(bound)} bound and not started"] if bound else []
        explain, doctor = self._at.carico(f"explain {pending[0].name}"), self._at.carico("doctor")
        formats.say(
            f"job {self._job.name}: no progress for {_STILL_S:.0f} s: {', '.join(what)}; "
            f"`{explain}` says why, `{doctor}` checks the cluster; still waiting",
            err=True,
        )


def unsuccessful(job_name: str, bad: Sequence[facts.PodFacts]) -> list[str]:
    """Return a line for each of the first Pods that did not succeed, and one for the rest."""
    lines = [f"job {job_name}: Pod {pod.name} {_became(pod)}" for pod in bad[:_NAMED_MOST]]
    if len(bad) > _NAMED_MOST:
        lines.append(f"job {job_name}: and {len(bad) - _NAMED_MOST} more that did not succeed")
    return lines


def _became(pod: facts.PodFacts) -> str:
    on = f" on {pod.node}" if pod.node else ", not bound to a node"
    if pod.phase == "Failed" and not pod.deleted_while:
        return f"failed{on}" + (f": {pod.reason}" if pod.reason else "")
    # The Pod was removed from the API before it ended.
    return f"was deleted while {pod.deleted_while or pod.phase}{on}: by someone, or with its node"
