"""OpenTelemetry traces, one per Pod; off unless a collector is configured. The only importer of `opentelemetry`.

The trace's ID is the Pod's UID, since both are 128 random bits, and the ID of the trace's root span follows from it. So
every process that knows a UID adds its spans to the same trace without a context. Between scheduler and agent, the API,
the kubelet and the container runtime would not propagate one (ADR 38).
"""

import dataclasses
import hashlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.trace import SpanContext

PATH = "/v1/traces"
# How long a stop waits until spans are sent.
CLOSE_WITHIN_S = 2.0
EXPORT_WITHIN_S = 5.0
Attributes = Mapping[str, str | int | float | bool]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a Pod, with start and end on the clock of this process (monotonic seconds).

    failure: why the step failed. is_root: the whole trace, of which all other steps are parts.
    """

    name: str
    uid: str
    began_s: float
    ended_s: float
    attributes: Attributes
    failure: str | None = None
    is_root: bool = False


class Tracer:
    """Turns completed steps into spans, which a separate thread sends."""

    def __init__(
        self, processor: "SpanProcessor", *, service: str, attributes: Attributes, clock: clocks.Clock, share: float
    ) -> None:
        """`attributes`: of all its spans. `share`: share of all Pods that is traced, 0 to 1."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._processor = processor
        self._clock = clock
        self._share = share
        self._resource = Resource.create({"service.name": service, "service.namespace": "carico", **attributes})
        self._scope = InstrumentationScope("carico")
        # The wall clock minus the monotonic one.
        self._offset_ns = clock.wall_ns() - _ns(clock.monotonic_s())

    def follows(self, uid: str) -> bool:
        """Return True for Pods that are traced: the same ones in every service with the same share."""
        return root_id(uid) < self._share * 2.0**64

    def add(self, step: Step) -> None:
        """Queue the step for export, unless its Pod is not sampled or the queue is full."""
        if self.follows(step.uid):
            self._processor.on_end(self._span(step))

    def close(self) -> None:
        """Send queued spans, or discard them after a while. Blocks."""
        self._processor.force_flush(int(CLOSE_WITHIN_S * 1e3))
        self._processor.shutdown()

    def _span(self, step: Step) -> "ReadableSpan":
        from opentelemetry import trace
        from opentelemetry.sdk.trace import ReadableSpan

        root = _context(step.uid, root_id(step.uid))
        own = root if step.is_root else _context(step.uid, _id_of(f"{step.uid}/{step.name}/{step.began_s!r}"))
        failed = step.failure is not None
        return ReadableSpan(
            name=step.name,
            context=own,
            parent=None if step.is_root else root,
            resource=self._resource,
            attributes={"k8s.pod.uid": step.uid, **step.attributes},
            kind=trace.SpanKind.INTERNAL,
            status=trace.Status(trace.StatusCode.ERROR, step.failure) if failed else trace.Status(),
            start_time=self._wall_ns(step.began_s),
            end_time=self._wall_ns(max(step.ended_s, step.began_s)),
            instrumentation_scope=self._scope,
        )

    def _wall_ns(self, at_s: float) -> int:
        # If the process is preempted between reading the two clocks, the offset is wrong by milliseconds, and a step
        # would seem to start before the one that it follows. So the offset changes only as far as a reading proves
        # necessary.
        before_ns = _ns(self._clock.monotonic_s())
        wall_ns = self._clock.wall_ns()
        after_ns = _ns(self._clock.monotonic_s())
        self._offset_ns = min(max(self._offset_ns, wall_ns - after_ns), wall_ns - before_ns)
        return self._offset_ns + _ns(at_s)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def check(url: str) -> None:
    """Raise `ValueError` for an invalid collector address; empty is valid: no traces."""
    if url and not url.startswith(("http://", "https://")):
        raise ValueError(f"--traces: got {url!r}, expected the address of a collector, such as http://127.0.0.1:4318")


def open_tracer(url: str, *, service: str, attributes: Attributes, clock: clocks.Clock, share: float) -> Tracer | None:
    """Return a tracer that sends to the collector at `url` (OTLP over HTTP); None if that is empty.

    Raises `EnvironmentUnfit` if the packages are not installed.
    """
    if not url:
        return None
    exporter: Any = _Exporter(_otlp(url), clock=clock, url=url)
    from opentelemetry.sdk.trace import export

    processor = export.BatchSpanProcessor(exporter)
    return Tracer(processor, service=service, attributes=attributes, clock=clock, share=share)


def trace_id(uid: str) -> int:
    """Return the ID of a Pod's trace, 128 bits: its UID, or a hash of it if it is no UUID (static Pods).

    >>> f"{trace_id('0e7f3c1a-0000-4000-8000-000000000001'):032x}"
    '0e7f3c1a000040008000000000000001'
    """
    try:
        found = uuid.UUID(uid).int
    except ValueError:
        found = 0
    return found or int.from_bytes(_digest(uid)[:16], "big")


def root_id(uid: str) -> int:
    """Return the ID of the root span of a Pod's trace, 64 uniformly distributed bits."""
    return _id_of(uid)


class _Exporter:
    """An exporter that logs a failure once a minute; the wrapped one would log three lines per batch."""

    def __init__(self, inner: Any, *, clock: clocks.Clock, url: str) -> None:
        self._inner = inner
        self._url = url
        self._limited = logs.RateLimited(logs.get("traces"), clock=clock)
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)

    def export(self, spans: Sequence["ReadableSpan"]) -> Any:
        """Send the spans and return the exporter's result."""
        result = self._inner.export(spans)
        if result.name != "SUCCESS":
            self._limited.warning("lost", "spans not sent", collector=self._url, spans=len(spans))
        return result

    def shutdown(self) -> None:
        """Send no more."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return whether nothing is left to send."""
        return bool(self._inner.force_flush(timeout_millis))


def _otlp(url: str) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http import trace_exporter
    except ImportError as error:
        raise errors.EnvironmentUnfit(
            f"traces need OpenTelemetry's packages, and {error.name} is not installed: "
            "pip install 'carico-core[traces]', or leave --traces empty"
        ) from error
    make: Callable[..., Any] = trace_exporter.OTLPSpanExporter
    return make(endpoint=url.rstrip("/") + PATH, timeout=EXPORT_WITHIN_S)


def _context(uid: str, span_id: int) -> "SpanContext":
    from opentelemetry import trace

    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    return trace.SpanContext(trace_id(uid), span_id, is_remote=False, trace_flags=flags)


def _id_of(text: str) -> int:
    # Zero is not a valid ID.
    return int.from_bytes(_digest(text)[:8], "big") or 1


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
