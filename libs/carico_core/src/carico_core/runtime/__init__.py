"""What the outer layers of all services share.

- `bus`: messages between services, over NATS or in memory.
- `kube`: the Kubernetes API: requests, lists, watches, and what CARICO writes there.
- `leadership`: which of several replicas of a service works.
- `observe`: what a service reports about itself: logs, metrics, traces, health.
- `process`: what every process needs: start and exit, tasks, clock, settings, memory.

A service's `__main__` calls `process.tasks.run_service`, which reads the settings, sets up the logs, and runs the
service until it is asked to stop. Packages import nothing here, so that a process loads only what it uses.
"""
