"""Adapter: brings what the Kubernetes API and the bus report into `context.cluster`.

- `informers`: one list and watch for each collection of the API.
- `telemetry`: advertisements, loads and traffic from the bus. `traffic`: the latter resolved to pairs of Pods.
- `scheduler`: asks the scheduler whether it would place a new Pod where a plan wants it. `lifetimes`: asks the
  aggregator how long Pods live.
"""
