"""Why the API refuses a Job's Pods (a quota, a limit, a policy), from the Events of the Job's controller."""

import re
from collections.abc import Mapping
from typing import Any, Protocol

from carico_core.domain import errors

# https://github.com/kubernetes/kubernetes/blob/v1.33.0/pkg/controller/controller_utils.go: FailedCreatePodReason, and
# "Error creating: " before the API's message. Each names another Pod, which never existed.
_REASON = "FailedCreate"
_BEFORE = re.compile(
    r'^(\(combined from similar events\): )?(Error creating: )?((pods|Pod) "[^"]*" (is forbidden: )?)?'
)


class Api(Protocol):
    """The Kubernetes API."""

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
        """Return the decoded answer."""
        ...


async def of_job(api: Api, namespace: str, name: str) -> str | None:
    """Return the API's last reason for refusing a Pod of this Job; None if it refused none, or there is no such Job.

    Raises what `request` raises, except `NotFound`: an API without Jobs refuses none of their Pods.
    """
    try:
        job = await api.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    except errors.NotFound:
        return None
    # By UID: Events outlive their Job by an hour, and a later Job may have its name.
    selector = f"involvedObject.uid={job['metadata']['uid']},reason={_REASON}"
    found = await api.request("GET", f"/api/v1/namespaces/{namespace}/events", params={"fieldSelector": selector})
    newest = max(found["items"], key=_when, default=None)
    return None if newest is None else why(newest.get("message", ""))


def why(message: str) -> str:
    """Return the reason in an Event's message, without the words that all such Events share.

    >>> why('Error creating: pods "j-0-x7k2p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2')
    'exceeded quota: q, requested: pods=1, used: pods=2'
    """
    return " ".join(_BEFORE.sub("", message).split())


def _when(event: Mapping[str, Any]) -> str:
    # All have the same format and zone: their order as text is that of time.
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])
