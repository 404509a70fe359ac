"""The cluster as the rescheduler sees it, and the problem that it poses. Pure.

- `objects`: Pods, workloads and what marks a move on them, as read from the API.
- `cluster`: everything known now, kept in step by events.
- `movable`: which Pods may move, and why the others may not.
- `payback`: what a move costs, and in which time that must pay back.
- `services`: Services and their endpoints, which resolve virtual addresses.
- `problem`: machines, Pods, loads, traffic and constraints as `numerics.rescheduling.containers.model` takes them.
"""
