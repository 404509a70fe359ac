"""What refuses a Job's Pods at the API (a quota, a limit, a policy), as the Job's controller says in its Events."""

import re
from collections.abc import Mapping
from typing import Any, Protocol

from carico_core.domain import errors

# https://github.com/kubernetes/kubernetes/blob/v1.33.0/pkg/controller/controller_utils.go: FailedCreatePodReason, and
# "Error creating: " before the API's words. Each names another Pod, one that has never been.
_REASON = "FailedCreate"
_BEFORE = re.compile(
    r'^(\(combined from similar events\): )?(Error creating: )?((pods|Pod) "[^"]*" (is forbidden: )?)?'
)


class Api(Protocol):
    """What is needed of the Kubernetes API."""

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
        """Return the decoded answer."""
        ...


async def of_job(api: Api, namespace: str, name: str) -> str | None:
    """Return why a Pod of this Job was last refused, in the API's words; None if none was or the Job does not exist.

    Raises what `request` raises but `NotFound`: an API that has no Jobs refuses none of their Pods.
    """
    try:
        job = await api.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    except errors.NotFound:
        return None
    # By UID: Events outlive their Job by an hour, and another may have its name.
    selector = f"involvedObject.uid={job['metadata']['uid']},reason={_REASON}"
    found = await api.request("GET", f"/api/v1/namespaces/{namespace}/events", params={"fieldSelector": selector})
    newest = max(found["items"], key=_when, default=None)
    return None if newest is None else why(newest.get("message", ""))


def why(message: str) -> str:
    """Return the words of an Event without those that every one of its kind has.

    >>> why('Error creating: pods "j-0-x7k2p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2')
    'exceeded quota: q, requested: pods=1, used: pods=2'
    """
    return " ".join(_BEFORE.sub("", message).split())


def _when(event: Mapping[str, Any]) -> str:
    # Texts of one form, the zone included, are in the order of their times.
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])
