"""What a new leader waits for before it decides: to have seen every bind of the previous leader.

A standby sees binds through its watch, which lags behind the API. If the previous leader released the Lease a moment
ago, a decision made now could miss its last binds and fill a node twice.
"""

import asyncio

from carico_core.runtime.kube import paged_lists
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.state import state as states

# Pods bound a moment ago: a Pod leaves Pending when its containers run, and then its node's agent advertises it.
JUST_BOUND = {"fieldSelector": "spec.nodeName!=,status.phase=Pending"}
CHECK_EVERY_S = 0.02
LIST_AGAIN_S = 0.5


async def catch_up(api: paged_lists.Api, state: states.State) -> int:
    """Wait until the state has a claim for each Pod that the API lists as just bound; return how many were missing.

    The list is not put into the state: only the watch does that, in its order, so that a Pod that has ended meanwhile
    is not mistaken for one that has not been shown yet. Raises `ApiError` and `ApiUnavailable`.
    """
    waited_for = _not_known_as_bound(await _just_bound(api), state)
    first = len(waited_for)
    checks = 0
    while waited_for:
        await asyncio.sleep(CHECK_EVERY_S)
        checks += 1
        if checks % round(LIST_AGAIN_S / CHECK_EVERY_S) == 0:
            # Stop waiting for those that have ended or left Pending since.
            waited_for &= await _just_bound(api)
        waited_for = _not_known_as_bound(waited_for, state)
    return first


def _not_known_as_bound(uids: set[str], state: states.State) -> set[str]:
    """Return the UIDs of which the state does not know that the Pod is bound."""
    found = {uid: state.records.find(uid) for uid in uids}
    return {uid for uid, record in found.items() if record is None or not record.is_bound}


async def _just_bound(api: paged_lists.Api) -> set[str]:
    """Return the UIDs of the Pods that are bound and still Pending; objects that cannot be parsed are left out."""
    listed = await paged_lists.list_all(api, "/api/v1/pods", params=JUST_BOUND, read=_uid_of)
    return {uid for uid in listed.objects if uid is not None}


def _uid_of(obj: paged_lists.Object) -> str | None:
    try:
        return api_objects.parse_pod(obj).uid
    except ValueError:
        return None
