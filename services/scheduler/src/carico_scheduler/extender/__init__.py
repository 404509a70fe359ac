"""Extender: lets a stock kube-scheduler place Pods by CARICO's capacity and its own plugins.

- `server`: the HTTP endpoint, the binder and the housekeeping, by `extender_settings`. `messages`: the protocol's JSON.
- `service`: filter, prioritize and bind. `judge`: which nodes have room, and their rank.
- `holds`: room promised between a filter and its bind. `binding`: binds on kube-scheduler's behalf.
"""
