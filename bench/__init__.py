"""Benchmarks: medians, each with its command; not part of a pass or fail.

services/        what a service, a scrape or a viewer costs, and how late the scheduler's view is
cluster/         whole clusters: next to the real kube-scheduler, several schedulers at a time, the demo, emulated nodes
faults/          how long a cluster needs after a part of it has failed
models/          the twin, recorded traces and the search of the rescheduler: no processes
churn            memory after many Pods; its `python -m bench.churn` takes their number
scheduler_perf   Kubernetes' own workloads; its `python -m bench.scheduler_perf` takes their names

`python -m bench NAME` runs any of them by its module's name.
"""
