"""The scheduler's part of a Pod's trace, from its creation to its node's word."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, export
from opentelemetry.sdk.trace.export import in_memory_span_exporter as in_memory
from opentelemetry.trace import StatusCode

from carico_core.runtime.observe import tracing
from carico_core.runtime.process import settings, tasks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler import app
from carico_scheduler import settings as setting
from tests.tools.memory import memory_bus, memory_kube, memory_objects
from tests.unit.scheduler import objects


class Rig:
    """A scheduler at work on the memory bus and API, with a node that has room for two Pods."""

    def __init__(self) -> None:
        self.clock = objects.LoopClock(asyncio.get_running_loop())
        self.api = memory_kube.MemoryKube(clock=self.clock)
        self.bus = memory_bus.MemoryBus()
        self.exporter = in_memory.InMemorySpanExporter()
        processor = export.SimpleSpanProcessor(self.exporter)
        self.tracer = tracing.Tracer(processor, service="carico-scheduler", attributes={}, clock=self.clock, share=1.0)
        chosen = settings.load(setting.SchedulerSettings, prefix="scheduler", argv=(), environ={}, program="test")
        self.scheduler = app.Scheduler(chosen, api=self.api, clock=self.clock, tracer=self.tracer)
        self._seq = 0

    async def advertise(self, *covers: str) -> None:
        self._seq += 1
        now_ns = self.clock.wall_ns()
        made = objects.make_advertisement(
            seq=self._seq, capacity=2.0, ts_ns=now_ns, sampled_at_ns=now_ns, covers=frozenset(covers)
        )
        await self.bus.publish(subjects.capacity("node-0"), wire.encode_advertisement(made))
        await asyncio.sleep(0.2)

    def uid(self, name: str) -> str:
        return str(self.api.objects.get("pods", ("default", name), "test")["metadata"]["uid"])

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


def run(story: Callable[[Rig], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        rig = Rig()
        stop = tasks.Stop()
        task = asyncio.create_task(rig.scheduler.run(rig.bus, stop))
        await asyncio.sleep(0.5)
        rig.api.objects.create("nodes", objects.node_object("node-0"), "test")
        await story(rig)
        stop.set()
        await task

    objects.run_fast(main())


def test_a_pods_way_has_each_step_once_in_one_trace() -> None:
    async def story(rig: Rig) -> None:
        rig.api.objects.create("pods", objects.pod_object("pod-0"), "test")
        await asyncio.sleep(1.0)
        assert rig.spans() == {}
        await rig.advertise()
        assert set(rig.spans()) == {"wait", "decide", "bind"}
        await asyncio.sleep(1.0)
        await rig.advertise(rig.uid("pod-0"))
        found = rig.spans()
        assert [span.name for span in rig.exporter.get_finished_spans()] == ["wait", "decide", "bind", "cover", "pod"]
        traces = {span.context.trace_id for span in found.values() if span.context is not None}
        assert traces == {tracing.trace_id(rig.uid("pod-0"))}
        assert {name for name, span in found.items() if span.parent is None} == {"pod"}
        assert found["pod"].attributes is not None
        assert found["pod"].attributes["k8s.pod.name"] == "pod-0"
        assert found["pod"].attributes["k8s.node.name"] == "node-0"
        assert found["decide"].attributes is not None
        assert found["decide"].attributes["carico.advertisement.seq"] == 1
        assert _length_s(found["wait"]) >= 1.0
        assert 1.0 <= _length_s(found["cover"]) < 2.0
        assert _length_s(found["pod"]) >= _length_s(found["wait"]) + _length_s(found["cover"])

    run(story)


def test_a_pod_that_goes_before_its_node_tells_of_it_ends_its_way_too() -> None:
    async def story(rig: Rig) -> None:
        rig.api.objects.create("pods", objects.pod_object("pod-0"), "test")
        await rig.advertise()
        rig.api.objects.delete("pods", ("default", "pod-0"), {}, "test")
        await asyncio.sleep(1.0)
        found = rig.spans()
        assert set(found) == {"wait", "decide", "bind", "pod"}
        assert found["pod"].status.status_code is StatusCode.UNSET

    run(story)


def test_a_bind_that_is_refused_is_a_failed_step_and_the_next_attempt_follows_it() -> None:
    async def story(rig: Rig) -> None:
        refusal = memory_objects.refusal(403, "Forbidden", "quota", "bind")
        rig.api.fail_next(refusal, method="POST", path="/binding")
        rig.api.objects.create("pods", objects.pod_object("pod-0"), "test")
        await rig.advertise()
        await asyncio.sleep(1.0)
        names = [span.name for span in rig.exporter.get_finished_spans()]
        assert names == ["wait", "decide", "bind"] * 2
        failed, taken = (span for span in rig.exporter.get_finished_spans() if span.name == "bind")
        assert failed.status.status_code is StatusCode.ERROR
        assert "quota" in (failed.status.description or "")
        assert taken.status.status_code is StatusCode.UNSET

    run(story)


def _length_s(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9
