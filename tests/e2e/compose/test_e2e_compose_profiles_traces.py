"""compose/traces.yml: one Pod's way as one trace, sent by scheduler and agent to a collector of the test's own."""

import json
import os
from typing import Any

import pytest

from tests.e2e.compose import compose_site
from tests.tools import debian

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(compose_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
# In Jaeger's place, whose image no test can pull; OpenTelemetry's own words for spans are in our image.
COLLECTOR = """
import json
from http import server
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
class Handler(server.BaseHTTPRequestHandler):
    def do_POST(self):
        said = self.rfile.read(int(self.headers["Content-Length"]))
        for group in trace_service_pb2.ExportTraceServiceRequest.FromString(said).resource_spans:
            service = {each.key: each.value.string_value for each in group.resource.attributes}["service.name"]
            for scope in group.scope_spans:
                for span in scope.spans:
                    print(json.dumps([service, span.trace_id.hex(), span.name]), flush=True)
        self.send_response(200)
        self.end_headers()
    def log_request(self, *_):
        pass
listening = server.ThreadingHTTPServer(("0.0.0.0", 4318), Handler)
print(json.dumps(["collector", "", "listens"]), flush=True)
listening.serve_forever()
"""
STEPS = {
    ("carico-scheduler", "pod"), ("carico-scheduler", "decide"), ("carico-scheduler", "bind"),
    ("carico-scheduler", "cover"), ("carico-agent", "start"), ("carico-agent", "advertise"),
}  # fmt: skip


def spans(stack: compose_site.Stack) -> list[Any]:
    """Return [service, trace, step] of every span received so far."""
    return [
        json.loads(line) for line in stack.compose("logs", "--no-log-prefix", "traces").splitlines() if line[0] == "["
    ]


def test_the_spans_of_scheduler_and_agent_for_a_pod_form_one_trace(stack: compose_site.Stack) -> None:
    command = {"command": ["python", "-c", COLLECTOR]}
    (stack.folder / "collector.yml").write_text(json.dumps({"services": {"traces": command}}))
    stack.environ["CARICO_COMPOSE_TRACES_IMAGE"] = "carico-compose:0.1.0"
    # For good: the tests that follow take down what this one put up.
    files = [stack.environ["COMPOSE_FILE"], "compose/traces.yml", "collector.yml"]
    stack.environ["COMPOSE_FILE"] = os.pathsep.join(files)
    stack.compose("up", "--detach", "--wait", "--no-build", "--scale", "node=1", "--scale", "scheduler=1")
    # What is sent before is lost.
    stack.until("the collector listens", lambda: ["collector", "", "listens"] in spans(stack))
    stack.compose("run", "--rm", "-T", "submit", "pi", "--pods", "1", "--seconds", "3", "--job", "traced")
    trace = stack.pods("traced")[0]["metadata"]["uid"].replace("-", "")
    steps: set[tuple[str, str]] = set()

    def is_whole() -> bool:
        steps.update((service, step) for service, found, step in spans(stack) if found == trace)
        return steps >= STEPS

    stack.until(f"trace {trace} has {STEPS}", is_whole)
    assert steps >= STEPS
