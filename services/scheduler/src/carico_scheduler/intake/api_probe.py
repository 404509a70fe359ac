"""How long the Kubernetes API has said nothing to this scheduler, where it does not answer any more.

Its watches show when they last brought something, but not whether there was nothing to bring: those of a frozen API
stay open and silent for minutes, as do those of a quiet one. So who wants to know asks it something. That a quiet one
was there until then, the answers to renewals of the Lease show.
"""

import dataclasses
from collections.abc import Callable

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks

# Nothing is asked of an API that said something just now. It answers this at once, from memory, to any client.
QUIET_S = 2.0
ANSWER_S = 1.0
_ASKED = "/version"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ApiProbe:
    """`heard_s`: when anything last came from the API, on the monotonic clock."""

    api: api_actions.Api
    heard_s: Callable[[], float]
    clock: clocks.Clock

    async def seconds(self) -> float | None:
        """Since when nothing has come from an API that does not answer within a second; None where it does."""
        if self.clock.monotonic_s() - self.heard_s() <= QUIET_S:
            return None
        try:
            await self.api.request("GET", _ASKED, timeout_s=ANSWER_S)
        except errors.ApiUnavailable:
            return self.clock.monotonic_s() - self.heard_s()
        except errors.ApiError:
            # It refuses, and so it answers.
            return None
        return None
