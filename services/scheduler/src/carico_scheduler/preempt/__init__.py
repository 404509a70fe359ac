"""Preempt: makes room for a Pod that fits nowhere, by evicting Pods of lower priority.

- `victims`: which Pods of a node would have to go, and which node loses least. Pure. `budgets`: PodDisruptionBudgets.
- `evictable`: which nodes need not be searched, since even all of their Pods would free too little. Pure.
- `nominations`: the Pods for which room is being made, each with its state. Pure.
- `search`: which node loses least if a Pod is placed there.
- `preemptor`: twice a second, picks the waiting Pods whose turn it is, and starts evictions.
- `opportunistic`: evicts Pods of one PriorityClass from nodes that have filled.
- `evictor`: writes them to the API: the nominated node, the victims' condition, deletion and Event.
"""
