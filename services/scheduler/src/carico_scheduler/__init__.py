"""CARICO scheduler: binds Pods by advertised capacity.

Packages, each with a map of its own:

- `state`: what is known, kept in step by events, with the life of each Pod. Pure.
- `pods` and `nodes`: the parts of it. Pure.
- `rules`: which nodes may take a Pod, and which is best. Pure.
- `decide`: one scheduling cycle, from the state to placements. Pure; start reading at `decide.cycle`.
- `gangs`: Pods that are placed together or not at all.
- `preempt`: makes room for a Pod that fits nowhere, by evicting Pods of lower priority.
- `bind`: binds Pods, and handles the outcome.
- `intake`: brings what the API and the agents report into the state.
- `report`: why Pods are where they are, or wait: records, Events, metrics, traces.
- `answers`: queries over the bus.
- `sharing`: several schedulers that decide at the same time.
- `extender`: serves a stock kube-scheduler, which then places by CARICO's capacity.
- `engine`: takes in, decides and starts binds.

At the top: `app` puts everything together by `settings`, and stops it in order; `service` connects it to the API and
the bus.
"""
