"""What a service reports about itself.

- `logs`: structured logs on stderr: JSON in a Pod, readable on a terminal.
- `metrics`: Prometheus metrics of a process, and the lag of its event loop.
- `client_metrics`: metrics of the bus connection and of requests to the Kubernetes API, the same in every service.
- `health`: the small HTTP server of /healthz, /readyz and /metrics.
- `tracing`: OpenTelemetry traces of Pods; the only importer of `opentelemetry`.
"""
