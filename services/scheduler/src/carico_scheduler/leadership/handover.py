"""What a new leader waits for before it decides: that it knows every bind of the leader before it.

A standby hears of a bind by its watch, which lags behind the API. Where the old leader gave
up the Lease a moment ago, a decision made now could miss its last binds and fill a node twice.
"""

import asyncio

from carico_core.runtime.kube import paged_lists
from carico_core.wire.kubernetes import api_objects
from carico_scheduler import state as states

# Bound a moment ago: a Pod leaves Pending when its containers run, and the agent of its node advertises it then.
JUST_BOUND = {"fieldSelector": "spec.nodeName!=,status.phase=Pending"}
LOOK_EVERY_S = 0.02
LIST_AGAIN_S = 0.5


async def catch_up(api: paged_lists.Api, state: states.State) -> int:
    """How many Pods had to be waited for, once the state has a claim for each that the API knows to be just bound.

    Nothing of the list is put into the state: the watch alone does that, in its order, so that a Pod that has ended
    meanwhile is not taken for one that has not come yet. Raises `ApiError` and `ApiUnavailable`.
    """
    waited_for = _unknown(await _just_bound(api), state)
    first = len(waited_for)
    looks = 0
    while waited_for:
        await asyncio.sleep(LOOK_EVERY_S)
        looks += 1
        if looks % round(LIST_AGAIN_S / LOOK_EVERY_S) == 0:
            # Those that have ended or left Pending since are waited for no longer.
            waited_for &= await _just_bound(api)
        waited_for = _unknown(waited_for, state)
    return first


def _unknown(uids: set[str], state: states.State) -> set[str]:
    """Return those that are not known to be bound."""
    found = {uid: state.records.find(uid) for uid in uids}
    return {uid for uid, record in found.items() if record is None or not record.is_bound}


async def _just_bound(api: paged_lists.Api) -> set[str]:
    """The UIDs of the Pods that are bound and still Pending, without those that cannot be read."""
    listed = await paged_lists.list_all(api, "/api/v1/pods", params=JUST_BOUND, read=_uid_of)
    return {uid for uid in listed.objects if uid is not None}


def _uid_of(obj: paged_lists.Object) -> str | None:
    try:
        return api_objects.parse_pod(obj).uid
    except ValueError:
        return None
