"""What the services' shells share: bus, Kubernetes API, clock, settings, logs, metrics.

A service's `main` calls `entry`, which reads its `settings` (values of the kinds of `setting_values`; what all services
have is in `service_settings`), sets up `logs`, and lets `tasks` run it until it is asked to stop.

- `bus`: what the bus offers. `memory_bus` has it in memory. `nats_bus` has it on NATS, in parts:
  - the connection: `bus_connection` (options), `bus_client` (nats-py's, mended), `bus_tls`, `bus_keys` and `bus_token`
    (who we are), `bus_server` (the other end), `bus_upkeep` and `bus_renewal` (so that it lasts);
  - messages: `bus_intake` (in, the short way), `bus_pull` (the work queue), `bus_streams` (what is stored) and
    `bus_direct` (reading it), `bus_service` and `bus_respond` (answering), `bus_survey` (asking all).
- `kube`: the Kubernetes API, reached by `kube_config` and `kube_credentials`. `kube_list` and `kube_watch` mirror a
  collection; `kube_actions` is what CARICO does to it. Below: `kube_http`, `kube_http_answer`, `kube_socket`,
  `kube_errors`. `memory_kube` has the same in memory, over `memory_objects`.
- `health`: the HTTP server of each service, on `connections`. `metrics`, and those that every service has:
  `metrics_bus`, `metrics_kube`, `metrics_loop`. `tracing`: a Pod's way, as OpenTelemetry's spans.
- `clock`: time, as an argument. `pace`: a rate that is kept.
- For small or quick processes: `optional_imports`, `process_memory`, `garbage`.
"""
