"""An OpenTelemetry collector that keeps what it is sent: OTLP over HTTP, in a thread."""

import threading
from collections.abc import Iterator, Mapping
from http import server

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

Span = trace_pb2.Span
PATH = "/v1/traces"


class Collector:
    """Listens on 127.0.0.1 until it is closed."""

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
                """Nothing."""

        self._server = server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def spans(self) -> Iterator[tuple[Mapping[str, str], trace_pb2.Span]]:
        """(attributes of the service, span) of all that came so far."""
        for body in list(self._bodies):
            for group in trace_service_pb2.ExportTraceServiceRequest.FromString(body).resource_spans:
                service = {each.key: each.value.string_value for each in group.resource.attributes}
                for scope in group.scope_spans:
                    for span in scope.spans:
                        yield service, span

    def close(self) -> None:
        """Nothing; the port is free again."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
