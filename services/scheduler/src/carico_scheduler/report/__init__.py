"""Report: decisions and waiting Pods, in records, Events, metrics and traces.

- `explain`: decisions in words. `decisions`: decision records, remembered and published.
- `reporter`: why Pods wait, twice a second. `notices`: when an Event about it is due. `events`: writes Events.
- `instruments`: Prometheus metrics. `traces`: OpenTelemetry spans of a Pod.
"""
