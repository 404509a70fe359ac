"""A node's shutdown: it takes no more Pods, its Pods have some time to finish, and its Node object is removed."""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Protocol

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import tasks

# Pods that were bound before the scheduler saw the cordon may still arrive.
ARRIVING_S = 0.5
LOOK_EVERY_S = 0.1
# The API may be stopping too: do not wait for it.
ANSWER_S = 2.0
# At most this long, a stopping node writes its last statuses. An API that runs takes milliseconds, or some seconds on a
# busy machine.
WRITTEN_S = 4.0
_log = logs.get("node.draining")


class NodeObject(Protocol):
    """The Node object."""

    async def cordon(self) -> None: ...

    async def remove(self) -> None: ...


class Pods(Protocol):
    """The node's Pods."""

    @property
    def active(self) -> int: ...

    async def shut_down(self, *, grace_s: float) -> None: ...

    def discard(self) -> None: ...


class Statuses(Protocol):
    """What writes the statuses of Pods."""

    async def drain(self) -> None: ...


async def run(stop: tasks.Stop, drained: tasks.Stop, *, node: NodeObject, pods: Pods, within_s: float) -> None:
    """After `stop`, set `drained` once no Pod runs, at most `within_s` later; run until cancelled."""
    await stop.wait()
    if within_s > 0.0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await _drain(node, pods)
        if pods.active:
            _log.warning("drain_cut_short", pods=pods.active, after_s=within_s, note="ending them now")
    drained.set()
    # A task of the node must not return: this one is cancelled with the others.
    await asyncio.Event().wait()


async def _drain(node: NodeObject, pods: Pods) -> None:
    _log.info("draining", pods=pods.active)
    await _attempt(node.cordon(), what="cordon")
    await asyncio.sleep(ARRIVING_S)
    while True:
        if not pods.active:
            return
        await asyncio.sleep(LOOK_EVERY_S)


async def end(pods: Pods, statuses: Statuses, *, grace_s: float) -> None:
    """End what still runs, wait for the last statuses, and remove the Pods' records.

    The records stay if the API does not take a status: the node's next process would run again what had finished.
    """
    await pods.shut_down(grace_s=grace_s)
    try:
        async with asyncio.timeout(WRITTEN_S):
            await statuses.drain()
    except TimeoutError:
        _log.warning("statuses_not_written", after_s=WRITTEN_S, note="the node's next process writes them")
    else:
        pods.discard()


async def leave(node: NodeObject) -> None:
    """Remove the Node object, or log why it could not be removed."""
    await _attempt(node.remove(), what="remove")


async def _attempt(request: Awaitable[None], *, what: str) -> None:
    try:
        async with asyncio.timeout(ANSWER_S):
            await request
    except (errors.ApiError, errors.ApiUnavailable, TimeoutError) as error:
        _log.warning("node_not_changed", what=what, why=str(error) or "no answer")
