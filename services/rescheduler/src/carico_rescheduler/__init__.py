"""CARICO rescheduler: moves running Pods to where their traffic is, and to where there is room.

A loop of five steps, each a package or module of its own:

- `adapter`: brings what the Kubernetes API, the agents and the scheduler report into the state.
- `context`: the cluster as it is now, which Pods may move, and the problem of placing them. Pure.
- `plan`: which moves pay, in which order. Pure; start reading at `plan.decision`.
- `moves`: carries out one move at a time, such that a crash at any moment leaves nothing behind.
- `reflection`: what became of each move; stops where moves do not pay.

At the top: `app` puts these together; `rounds` runs the loop while this replica leads, `planner` makes its plans.
`answers` replies to queries, `asked_plans` has the plans that these ask for, `journal` has what outlives
a process: pauses, moves of the hour, rests;
`settings`, `instruments` (metrics); `service` connects to the API and the bus.
"""
