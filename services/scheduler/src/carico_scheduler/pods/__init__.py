"""Pods: who waits, who counts where, and what each asks for. Pure.

- `record`: the record of each Pod, its state, and the steps from one state to the next.
- `demand`: what a Pod asks of a node; Pods of one demand share every answer.
- `queue`: the Pods that wait for a node, highest priority first.
- `reservations`: which Pods count on which node, and which of them no advertisement covers yet.
- `pod_counts`: how many Pods on each node a selector means, for affinity and spreading.
- `anti_affinity_index`: which Pods that exist may keep a given Pod away.
"""
