"""What the services' shells share.

- `bus`: messages between services, over NATS or in memory.
- `kube`: the Kubernetes API: requests, lists, watches, and what CARICO writes there.
- `observe`: what a service reports about itself: logs, metrics, traces, health.
- `process`: what every process needs: entry point, tasks, clock, settings, memory.

A service's `main` calls `process.entry`, which reads the settings, sets up the logs, and runs the service until it is
asked to stop. Packages import nothing here, so that a process loads only what it uses.
"""
