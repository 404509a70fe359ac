"""The callout's metrics, carico_auth_..., and its log of accepted and refused clients."""

from carico_auth import nats_jwt, policy
from carico_core.runtime.observe import logs
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks

ANSWER_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 3.0)
# These mean that the API does not answer, not that a token is bad.
_OURS = (policy.Refused.API_AWAY, policy.Refused.API_REFUSES, policy.Refused.TOO_LATE)
# Refused clients retry within seconds: after this long without a failure the API answers again.
TROUBLE_LASTS_S = 30.0


class Instruments:
    """Every series. Refusals are logged once a minute for each host and reason: refused clients retry without end."""

    def __init__(self, metrics: metric.Metrics, *, clock: clocks.Clock) -> None:
        self.grants = metrics.counter("grants", "clients accepted", ("role",))
        self.refusals = metrics.counter("refusals", "clients refused", ("reason",))
        self.disconnected = metrics.counter(
            "disconnected", "clients disconnected: their Pod is gone, or they sent far too much", ("reason",)
        )
        self.dropped = metrics.counter("dropped", "requests without an answer because there were too many")
        self.answer_s = metrics.histogram("answer_seconds", "time to answer a request", buckets=ANSWER_BUCKETS)
        self._clock = clock
        self._trouble = (float("-inf"), "")
        self._log = logs.get("callout")
        self._limited = logs.RateLimited(self._log, clock=clock)

    def trouble(self) -> str | None:
        """Return why the Kubernetes API did not answer recently; None if it did, or was not asked."""
        since_s, text = self._trouble
        return text if self._clock.monotonic_s() - since_s < TROUBLE_LASTS_S else None

    def granted(self, grant: policy.Grant, request: nats_jwt.Request) -> None:
        """Count and log an accepted client."""
        self._trouble = (float("-inf"), "")
        self.grants.labels(grant.role.value).inc()
        self._log.info(
            "let in", identity=grant.name, client=request.client_name, host=request.client_host, until_s=grant.expires_s
        )

    def refused(self, refusal: policy.Refusal, request: nats_jwt.Request | None) -> None:
        """Count and log a refused client. Tokens are never logged."""
        self.refusals.labels(refusal.reason.value).inc()
        if refusal.reason in _OURS:
            self._trouble = (self._clock.monotonic_s(), f"{refusal.reason.value}: {refusal.detail}")
        host = "" if request is None else request.client_host
        client = "" if request is None else request.client_name
        self._limited.warning(
            (host, client, refusal.reason), "refused",
            reason=refusal.reason.value, detail=refusal.detail, client=client, host=host,
        )  # fmt: skip
