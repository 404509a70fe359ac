"""An OpenTelemetry collector that stores what it receives: OTLP over HTTP, in a thread."""

from collections.abc import Iterator, Mapping
from http import server

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.tools import http_thread

Span = trace_pb2.Span
PATH = "/v1/traces"


class Collector(http_thread.Server):
    """Listens until it is closed."""

    def __init__(self) -> None:
        self._bodies: list[bytes] = []
        bodies = self._bodies

        class Handler(server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == PATH:
                    bodies.append(body)
                self.send_response(200 if self.path == PATH else 404)
                self.end_headers()

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                """Log nothing."""

        super().__init__(Handler)

    def spans(self) -> Iterator[tuple[Mapping[str, str], trace_pb2.Span]]:
        """Return (attributes of the service, span) of all spans received so far."""
        for body in list(self._bodies):
            for group in trace_service_pb2.ExportTraceServiceRequest.FromString(body).resource_spans:
                service = {each.key: each.value.string_value for each in group.resource.attributes}
                for scope in group.scope_spans:
                    for span in scope.spans:
                        yield service, span
