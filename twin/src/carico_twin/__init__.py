"""CARICO's twin: a cluster in virtual time that runs the services' own rules.

- A run: `scenario` and `catalogue` (what is run), `work` (what a Pod uses), `world` (puts a run together), `events`
  (virtual time), `records` and `measures` (what happened, and how it is judged).
- The machines: `machine`, `kubelet`, `telemetry`, `bus`, `api_objects`.
- The product's code in it: `agents`, `aggregator`; `schedulers/` has CARICO's cycle and those it is compared with.
  `lies`: agents that report wrong numbers.
- `evaluate/`: `carico evaluate`.
"""
