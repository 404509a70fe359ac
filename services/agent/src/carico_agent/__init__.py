"""CARICO agent: one node learns what its work costs and advertises its capacity.

- `telemetry`: usage of the node, one file per source. `sampler` reads it ten times a second.
- `pod_events`: which Pods run, one file per adapter.
- `traffic`: bytes between Pods, if the settings name a source.
- `learning`: from samples to an estimate (`pipeline`), with the node's own model and the cluster's.
- `reporting`: what is published, shown, measured and traced of it.
- `app`: combines these for one node; synchronous. `service`: connects it and runs it.
- `recording`: raw samples and Pod events to a file, for `carico replay`.
- `settings`; `ports`: interfaces between these parts.
"""
