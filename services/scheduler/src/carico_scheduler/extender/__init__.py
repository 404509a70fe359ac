"""Extender: a stock kube-scheduler places by CARICO's capacity and its own plugins.

- `server`: the HTTP endpoint; `messages`: the protocol's JSON.
- `service`: filter, prioritize and bind. `judge`: which nodes have room, and their rank.
- `holds`: room promised between a filter and its bind. `binding`: binds on kube-scheduler's behalf.
- `unit`: puts these together, by `settings`.
"""
