"""CARICO's twin: a simulated cluster in virtual time that runs the services' own rules.

- `scenario`: what is run: nodes, jobs, and faults. `catalogue`: the scenarios that schedulers are compared on.
- `public`: scenarios from public traces.
- `world`: a run, put together from a scenario and a choice of scheduler.
- `virtual_time`: the timeline of actions, and messages that take time on it.
- `nodes`: kubelets that run Pods on machines, and what an agent reads there.
- `agents`, `aggregator`, `schedulers`: the services, on messages and virtual time.
- `records`: what happened to each Pod and node. `measures`: the figures of a run.
- `evaluate`: every scheduler on every scenario, compared with published figures.
- `rescheduling`: the rescheduling paper's simulations, next to its published figures.
"""
