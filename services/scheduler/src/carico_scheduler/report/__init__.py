"""Report: decisions and waiting Pods, in records, Events, conditions, metrics and traces.

- `explain`: decisions in words. `decisions`: decision records, remembered and published.
- `reporter`: why Pods wait, twice a second. `notices`: when an Event about it is due. `events`: writes Events.
- `conditions`: writes PodScheduled=False. `verdicts`: whether more nodes would help the Pod.
- `namespace_queue`: in which namespaces take turns, for Events and conditions.
- `rosters`: which Pods are on each node, for its agent. `summaries`: the cluster every five seconds, as history.
- `instruments`: Prometheus metrics; `waits`: waiting times by class. `traces`: OpenTelemetry spans of a Pod.
"""
