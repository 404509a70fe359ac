"""How long the API has been silent: reported only where it does not answer, and probed only where watches are quiet."""

from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_scheduler.intake import informers

AWAY = errors.ApiUnavailable("GET /version: no answer in time")
FORBIDDEN = errors.Forbidden(status=403, reason="Forbidden", message="no", request="GET /version")


class Api:
    """An API of which this comes; a second passes where that is no answer."""

    def __init__(self, outcome: Exception | None, clock: clocks.FakeClock) -> None:
        self.outcome, self.clock, self.asked = outcome, clock, 0

    async def request(self, method: str, path: str, *, timeout_s: float = 10.0, **_: Any) -> Any:
        self.asked += 1
        if isinstance(self.outcome, errors.ApiUnavailable):
            self.clock.advance(timeout_s)
        if self.outcome is not None:
            raise self.outcome
        return {}


@pytest.mark.parametrize(
    ("quiet_s", "outcome", "asked", "expected_s"),
    [(1.0, AWAY, 0, None), (60.0, None, 1, None), (60.0, FORBIDDEN, 1, None), (60.0, AWAY, 1, 61.0)],
)
async def test_silence_is_reported_where_the_api_does_not_answer(
    quiet_s: float, outcome: Exception | None, asked: int, expected_s: float | None
) -> None:
    clock = clocks.FakeClock(monotonic_s=100.0)
    api = Api(outcome, clock)
    found = await informers.ApiProbe(api=api, heard_s=lambda: 100.0 - quiet_s, clock=clock).silent_s()
    assert (found, api.asked) == (expected_s, asked)
