"""Traces of Pods: their IDs, what a step becomes, what is followed, and what goes wrong."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import export
from opentelemetry.sdk.trace.export import in_memory_span_exporter as in_memory
from opentelemetry.trace import StatusCode

from carico_core.domain import errors
from carico_core.runtime.observe import logs, tracing
from carico_core.runtime.process import clock as clocks
from tests.tools import span_collector

UID = "0e7f3c1a-0000-4000-8000-000000000001"


class Rig:
    """A tracer whose spans stay in memory."""

    def __init__(
        self, *, share: float = 1.0, service: str = "carico-test", clock: clocks.FakeClock | None = None
    ) -> None:
        self.clock = clock if clock is not None else clocks.FakeClock(monotonic_s=100.0)
        self.exporter = in_memory.InMemorySpanExporter()
        processor = export.SimpleSpanProcessor(self.exporter)
        self.tracer = tracing.Tracer(processor, service=service, attributes={}, clock=self.clock, share=share)


def step(name: str = "bind", **more: Any) -> tracing.Step:
    fields: dict[str, Any] = {"name": name, "uid": UID, "began_s": 99.0, "ended_s": 99.5, "attributes": {}}
    return tracing.Step(**(fields | more))


def test_the_trace_is_the_pods_uid_and_its_parts_hang_below_one_root() -> None:
    rig = Rig()
    rig.tracer.add(step(attributes={"k8s.node.name": "node-1"}))
    rig.tracer.add(step("pod", is_root=True))
    part, root = rig.exporter.get_finished_spans()
    assert root.context is not None
    assert part.context is not None
    assert f"{root.context.trace_id:032x}" == UID.replace("-", "")
    assert part.context.trace_id == root.context.trace_id
    assert part.parent is not None
    assert part.parent.span_id == root.context.span_id
    assert root.parent is None
    assert part.context.span_id != root.context.span_id
    assert part.attributes is not None
    assert dict(part.attributes) == {"k8s.pod.uid": UID, "k8s.node.name": "node-1"}
    assert part.resource.attributes["service.name"] == "carico-test"


def test_two_services_meet_in_one_trace_without_a_word_to_each_other() -> None:
    scheduler, agent = Rig(service="carico-scheduler"), Rig(service="carico-agent")
    scheduler.tracer.add(step("pod", is_root=True))
    agent.tracer.add(step("start"))
    (root,), (part,) = scheduler.exporter.get_finished_spans(), agent.exporter.get_finished_spans()
    assert root.context is not None
    assert part.context is not None
    assert part.parent is not None
    assert (part.context.trace_id, part.parent.span_id) == (root.context.trace_id, root.context.span_id)


def test_times_are_those_of_the_wall_at_the_time() -> None:
    rig = Rig()
    rig.tracer.add(step())
    (found,) = rig.exporter.get_finished_spans()
    assert found.start_time == rig.clock.wall_ns() - 1_000_000_000
    assert found.end_time == rig.clock.wall_ns() - 500_000_000


class PassedOver(clocks.FakeClock):
    """The clocks as a process reads them that stands still for a while after it has read the wall's."""

    pause_s = 0.0

    def wall_ns(self) -> int:
        found = super().wall_ns()
        self.advance(self.pause_s)
        return found


def test_a_process_that_is_passed_over_between_two_clocks_tells_no_other_time() -> None:
    clock = PassedOver(monotonic_s=100.0)
    rig = Rig(clock=clock)
    for clock.pause_s in (0.0, 0.007, 0.0):
        rig.tracer.add(step())
    assert len({found.start_time for found in rig.exporter.get_finished_spans()}) == 1


@pytest.mark.parametrize("by_s", [-30.0, 0.004, 30.0])
def test_a_clock_that_is_set_is_followed_at_once(by_s: float) -> None:
    rig = Rig()
    rig.tracer.add(step())
    rig.clock.step_wall(by_s)
    rig.tracer.add(step("cover"))
    before, after = rig.exporter.get_finished_spans()
    assert before.start_time is not None
    assert after.start_time == before.start_time + round(by_s * 1e9)


def test_what_came_to_nothing_says_why() -> None:
    rig = Rig()
    rig.tracer.add(step(failure="bind_failed: quota"))
    (found,) = rig.exporter.get_finished_spans()
    assert found.status.status_code is StatusCode.ERROR
    assert found.status.description == "bind_failed: quota"


def test_a_share_of_all_pods_is_followed_the_same_ones_everywhere() -> None:
    uids = [f"0e7f3c1a-0000-4000-8000-{number:012d}" for number in range(2000)]
    half, other, none, every = Rig(share=0.5), Rig(share=0.5), Rig(share=0.0), Rig()
    followed = [uid for uid in uids if half.tracer.follows(uid)]
    assert 900 < len(followed) < 1100
    assert followed == [uid for uid in uids if other.tracer.follows(uid)]
    assert not any(none.tracer.follows(uid) for uid in uids)
    assert all(every.tracer.follows(uid) for uid in uids)
    none.tracer.add(step())
    assert none.exporter.get_finished_spans() == ()


@pytest.mark.parametrize("uid", ["static-pod-hash", "", "00000000-0000-0000-0000-000000000000"])
def test_a_uid_that_is_no_uuid_has_a_trace_all_the_same(uid: str) -> None:
    assert 0 < tracing.trace_id(uid) < 2**128
    assert 0 < tracing.root_id(uid) < 2**64


def test_off_is_no_tracer_and_a_strange_address_is_refused() -> None:
    clock = clocks.FakeClock()
    assert tracing.open_tracer("", service="x", attributes={}, clock=clock, share=1.0) is None
    tracing.check("")
    tracing.check("http://127.0.0.1:4318")
    with pytest.raises(ValueError, match=r"--traces: got 'localhost:4318', expected the address"):
        tracing.check("localhost:4318")


def test_without_the_packages_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(errors.EnvironmentUnfit, match=r"pip install 'carico-core\[traces\]'"):
        tracing.open_tracer("http://127.0.0.1:4318", service="x", attributes={}, clock=clocks.FakeClock(), share=1.0)


@pytest.fixture
def collector() -> Iterator[span_collector.Collector]:
    made = span_collector.Collector()
    yield made
    made.close()


def test_what_is_sent_is_otlp_and_a_close_leaves_nothing_behind(collector: span_collector.Collector) -> None:
    tracer = tracing.open_tracer(
        collector.url + "/", service="carico-scheduler", attributes={"k8s.node.name": "n"}, clock=clocks.SystemClock(),
        share=1.0,
    )  # fmt: skip
    assert tracer is not None
    now_s = clocks.SystemClock().monotonic_s()
    tracer.add(step(began_s=now_s - 0.5, ended_s=now_s))
    tracer.close()
    ((resource, span),) = collector.spans()
    assert span.name == "bind"
    assert span.trace_id.hex() == UID.replace("-", "")
    assert [each.key for each in span.attributes] == ["k8s.pod.uid"]
    assert resource["service.name"] == "carico-scheduler"
    assert resource["k8s.node.name"] == "n"


class Away:
    """An exporter whose collector does not answer."""

    def export(self, spans: object) -> export.SpanExportResult:
        return export.SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Do nothing."""


def test_a_collector_that_is_away_costs_one_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup(service="test", json=True)
    clock = clocks.FakeClock()
    exporter = tracing._Exporter(Away(), clock=clock, url="http://collector:4318")
    for _ in range(3):
        assert exporter.export([]) is export.SpanExportResult.FAILURE
        clock.advance(25.0)
    assert capsys.readouterr().err.count("spans not sent") == 1
    exporter.export([])
    assert '"left_out":2' in capsys.readouterr().err
