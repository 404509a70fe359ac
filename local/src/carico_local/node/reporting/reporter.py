"""Writes statuses of Pods to the API: only the newest of each Pod, several Pods at a time, with retries."""

import asyncio
import dataclasses
import random
from typing import Any

from carico_core.domain import errors
from carico_core.numerics import backoff
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs

# Statuses in flight: enough to hide the API's latency, few enough not to overload it.
IN_FLIGHT = 8
RETRY_FIRST_S = 0.2
RETRY_MOST_S = 5.0
_log = logs.get("node.status")


@dataclasses.dataclass(slots=True, kw_only=True)
class _Report:
    """What is to be written for one Pod. `delete`: then delete the Pod's object."""

    namespace: str
    name: str
    status: dict[str, Any] | None = None
    delete: bool = False


class Reporter:
    """Statuses by UID; a newer one replaces an unsent one."""

    def __init__(self, api: api_actions.Api, rng: random.Random) -> None:
        self._api = api
        self._rng = rng
        self._reports: dict[str, _Report] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, uid: str, *, namespace: str, name: str, status: dict[str, Any]) -> None:
        """Write the status as soon as a slot is free."""
        self._report(uid, namespace, name).status = status
        self._wake(uid)

    def delete(self, uid: str, *, namespace: str, name: str) -> None:
        """Delete the Pod's object once its last status has been written."""
        self._report(uid, namespace, name).delete = True
        self._wake(uid)

    async def drain(self) -> None:
        """Wait until everything has been written."""
        await self._idle.wait()

    async def close(self) -> None:
        """Discard unwritten statuses."""
        tasks = list(self._sending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _report(self, uid: str, namespace: str, name: str) -> _Report:
        return self._reports.setdefault(uid, _Report(namespace=namespace, name=name))

    def _wake(self, uid: str) -> None:
        self._idle.clear()
        if uid not in self._sending:
            self._sending[uid] = asyncio.create_task(self._send_all(uid), name=f"status {uid}")

    async def _send_all(self, uid: str) -> None:
        """Send the reports of one Pod until there is no newer one."""
        waits = backoff.Backoff(first_s=RETRY_FIRST_S, most_s=RETRY_MOST_S, rng=self._rng)
        try:
            while uid in self._reports:
                async with self._slots:
                    # Taken only now: a newer one may have arrived while this task waited for a slot.
                    report = self._reports.pop(uid)
                    done = await self._send(uid, report)
                if done:
                    continue
                newer = self._reports.get(uid)
                self._reports[uid] = _merged(report, newer)
                await asyncio.sleep(waits.next_s())
        finally:
            del self._sending[uid]
            if not self._sending:
                self._idle.set()

    async def _send(self, uid: str, report: _Report) -> bool:
        """Return False where the API is unavailable and the report has to be sent again."""
        try:
            if report.status is not None:
                await self._write(uid, report, report.status)
            if report.delete:
                await self._delete(uid, report)
        except errors.ApiUnavailable:
            return False
        except (errors.NotFound, errors.Conflict):
            # The Pod is gone, or another one has its name now: there is nothing left to report.
            return True
        except errors.ApiError as error:
            self._refuse(report, error)
        return True

    async def _write(self, uid: str, report: _Report, status: dict[str, Any]) -> None:
        """Write the status. Where the API rejects it, the Pod can still be deleted."""
        try:
            await api_actions.patch_pod_status(
                self._api, namespace=report.namespace, name=report.name, uid=uid, status=status
            )
        except (errors.Invalid, errors.Forbidden) as error:
            self._refuse(report, error)

    def _refuse(self, report: _Report, error: errors.ApiError) -> None:
        _log.error("status_refused", pod=f"{report.namespace}/{report.name}", error=str(error))

    async def _delete(self, uid: str, report: _Report) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._api.request("DELETE", api_actions.pod_path(report.namespace, report.name), body=body)


def _merged(older: _Report, newer: _Report | None) -> _Report:
    if newer is None:
        return older
    return dataclasses.replace(
        newer, status=older.status if newer.status is None else newer.status, delete=older.delete or newer.delete
    )
