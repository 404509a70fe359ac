"""Decide: from a snapshot of the nodes and the queue to placements. Pure; start reading at `cycle`.

- `cycle`: one scheduling cycle.
- `parties`: the Pods of a gang, placed in one step.
- `masks`: which nodes pass the filters over Node objects, cached between cycles.
- `cycle_scores`: the scores of a cycle, by demand. `scores`: the score of every node for one demand; `peer_scores`: the
  same if other Pods, volumes or preferences matter.
- `turns`: which Pods have waited for so long that a node is held for them.
"""
