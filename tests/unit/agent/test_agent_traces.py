"""The agent's part of a Pod's trace: its container is made, and an advertisement covers it."""

from opentelemetry.sdk.trace import export
from opentelemetry.sdk.trace.export import in_memory_span_exporter as in_memory

from carico_agent.reporting import traces
from carico_core.domain import recording
from carico_core.runtime.observe import tracing
from carico_core.runtime.process import clock as clocks

UID = "0e7f3c1a-0000-4000-8000-000000000001"


class Rig:
    def __init__(self) -> None:
        self.clock = clocks.FakeClock(monotonic_s=10.0)
        self.exporter = in_memory.InMemorySpanExporter()
        processor = export.SimpleSpanProcessor(self.exporter)
        tracer = tracing.Tracer(processor, service="carico-agent", attributes={}, clock=self.clock, share=1.0)
        self.pods = traces.TracedPods(tracer, node="node-1", clock=self.clock)

    def happens(self, kind: recording.EventKind, uid: str = UID) -> None:
        self.pods.happened(kind, uid, self.clock.monotonic_s())

    def lengths_s(self) -> dict[str, float]:
        found = {}
        for span in self.exporter.get_finished_spans():
            assert span.start_time is not None
            assert span.end_time is not None
            found[span.name] = (span.end_time - span.start_time) / 1e9
        return found


def test_from_its_container_to_the_first_message_that_covers_it() -> None:
    rig = Rig()
    rig.happens(recording.EventKind.CREATED)
    rig.clock.advance(0.25)
    rig.happens(recording.EventKind.STARTED)
    rig.pods.advertised(frozenset({"another"}), seq=6, capacity=3.0)
    rig.clock.advance(0.5)
    for seq in (7, 8):
        rig.pods.advertised(frozenset({UID, "another"}), seq=seq, capacity=3.0)
    assert rig.lengths_s() == {"start": 0.25, "advertise": 0.5}
    first, second = rig.exporter.get_finished_spans()
    assert first.attributes is not None
    assert first.attributes["k8s.node.name"] == "node-1"
    assert second.attributes is not None
    assert second.attributes["carico.advertisement.seq"] == 7
    assert {span.context.trace_id for span in (first, second) if span.context} == {tracing.trace_id(UID)}


def test_a_pod_whose_creation_was_not_seen_starts_in_an_instant() -> None:
    rig = Rig()
    rig.happens(recording.EventKind.STARTED)
    assert rig.lengths_s() == {"start": 0.0}


def test_pods_that_never_start_are_not_kept() -> None:
    rig = Rig()
    for number in range(3 * traces.OPEN_MOST):
        rig.happens(recording.EventKind.CREATED, f"uid-{number}")
    rig.happens(recording.EventKind.REMOVED, f"uid-{3 * traces.OPEN_MOST - 1}")
    assert len(rig.pods._creating_s) == traces.OPEN_MOST - 1
    assert rig.lengths_s() == {}
