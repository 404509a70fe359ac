"""A Pod's trace across processes: scheduler and agent of a running cluster send to one collector, and meet there."""

import asyncio
import collections
import pathlib
from collections.abc import Iterator

import pytest

from carico_core.runtime.observe import tracing
from tests.e2e import carico_command
from tests.tools import span_collector, waiting

# Created by the API, seen by the scheduler; a Pod's own steps follow each other.
STEPS = {
    "carico-scheduler": {"wait", "decide", "bind", "cover", "pod"},
    "carico-agent": {"start", "advertise"},
}
PODS = 4
# OpenTelemetry's own setting, in ms: by default a batch waits 5 s before it is sent.
SENT_SOON = {"OTEL_BSP_SCHEDULE_DELAY": "200"}
WITHIN_S = 60.0
NAME = "e2e-traces"


@pytest.fixture
def collector() -> Iterator[span_collector.Collector]:
    made = span_collector.Collector()
    yield made
    made.close()


@pytest.mark.timeout(240)
async def test_scheduler_and_agent_meet_in_one_trace_for_each_pod(
    collector: span_collector.Collector, tmp_path: pathlib.Path
) -> None:
    shell = carico_command.Shell(tmp_path)
    shell.environ |= {"CARICO_SCHEDULER_TRACES": collector.url, "CARICO_AGENT_TRACES": collector.url} | SENT_SOON
    async with carico_command.cluster(shell, NAME, "--nodes", "2"):
        job = ("submit", "pi", "--name", NAME, "--pods", str(PODS), "--seconds", "0.5", "--wait")
        code, out, err = await shell.run(*job)
        assert code == 0, out + err
        await asyncio.to_thread(
            waiting.until_now, lambda: len(whole(collector)) == PODS, within_s=WITHIN_S, every_s=0.1,
            what=lambda: f"{PODS} traces: {dict(steps(collector))}",
        )  # fmt: skip
    for trace_id, spans in whole(collector).items():
        (root,) = (span for span in spans if not span.parent_span_id)
        assert root.name == "pod"
        uid = next(each.value.string_value for each in root.attributes if each.key == "k8s.pod.uid")
        assert int.from_bytes(trace_id, "big") == tracing.trace_id(uid)
        assert {span.parent_span_id for span in spans if span is not root} == {root.span_id}
        starts = {span.name: span.start_time_unix_nano for span in spans}
        assert starts["wait"] <= starts["decide"] <= starts["bind"] <= starts["cover"]
        # What the agent did is within what the scheduler waited for; one machine, one clock.
        assert starts["decide"] <= starts["start"] <= starts["advertise"]
        assert root.start_time_unix_nano <= min(starts.values())


def steps(collector: span_collector.Collector) -> dict[bytes, dict[str, set[str]]]:
    """The names of the spans that came, by trace and service."""
    found: dict[bytes, dict[str, set[str]]] = {}
    for service, span in collector.spans():
        found.setdefault(span.trace_id, {}).setdefault(service["service.name"], set()).add(span.name)
    return found


def whole(collector: span_collector.Collector) -> dict[bytes, list[span_collector.Span]]:
    """The traces that have every step of both services."""
    spans = collections.defaultdict(list)
    for _, span in collector.spans():
        spans[span.trace_id].append(span)
    return {trace_id: spans[trace_id] for trace_id, found in steps(collector).items() if found == STEPS}
