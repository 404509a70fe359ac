"""Frozen records and plain rules; standard library and numpy only, no clock, no I/O.

- `cluster`: Pods and Nodes. `constraints`, `selectors`: what a Pod requires of its node. `storage`: volumes and claims.
- `gangs`: Pods that are placed together or not at all.
- `messages`, `usage`, `pod_telemetry`: the messages of the bus. `decision`: the scheduler's decisions.
- `recording`: recorded telemetry.
- `judgement`: whether a Pod can ever fit, and which of its names look misspelt.
- `names`: names of objects and of classes of Pods. `amounts`: amounts with units. `errors`: every error.
"""
