"""Why the API refuses a Job's Pods (a quota, a limit, a policy), from the Events of the Job's controller."""

import asyncio
import contextlib
import re
from collections.abc import Mapping
from typing import Any

from carico_cli.live import object_events
from carico_core.domain import errors

# https://github.com/kubernetes/kubernetes/blob/v1.33.0/pkg/controller/controller_utils.go: FailedCreatePodReason, and
# "Error creating: " before the API's message. Each names another Pod, which never existed.
_REASON = "FailedCreate"
_BEFORE = re.compile(
    r'^(\(combined from similar events\): )?(Error creating: )?((pods|Pod) "[^"]*" (is forbidden: )?)?'
)


async def find_job(api: object_events.Api, namespace: str, name: str) -> Mapping[str, Any] | None:
    """Return a batch/v1 Job; None where it does not exist, or cannot be read now or by this user."""
    with contextlib.suppress(errors.CaricoError, TimeoutError):
        async with asyncio.timeout(object_events.WITHIN_S):
            found: Mapping[str, Any] = await api.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
            return found
    return None


async def of_job(api: object_events.Api, job: Mapping[str, Any] | None) -> str | None:
    """Return the API's last reason for refusing a Pod of this Job; None if it refused none, or none can be read."""
    if job is None:
        return None
    # By UID: Events outlive their Job by an hour, and a later Job may have its name.
    selector = f"involvedObject.uid={job['metadata']['uid']},reason={_REASON}"
    with contextlib.suppress(errors.CaricoError):
        found = await object_events.newest(api, job["metadata"]["namespace"], selector)
        return why(found.newest[-1].get("message", "")) if found.newest else None
    return None


def why(message: str) -> str:
    """Return the reason in an Event's message, without the words that all such Events share.

    >>> why('Error creating: pods "j-0-x7k2p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2')
    'exceeded quota: q, requested: pods=1, used: pods=2'
    """
    return " ".join(_BEFORE.sub("", message).split())
