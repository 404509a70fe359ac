"""Frozen records and plain rules; standard library and numpy only, no clock, no I/O.

- `cluster`: Pods and Nodes. `constraints`, `selectors`: what a Pod requires of its node. `storage`: volumes and claims.
- `gangs`: Pods that are placed together or not at all.
- `messages`, `usage`: the messages of the bus. `decision`: the scheduler's decisions. `recording`: recorded telemetry.
- `names`: names of objects and of classes of Pods. `amounts`: amounts with units. `errors`: every error.
"""
