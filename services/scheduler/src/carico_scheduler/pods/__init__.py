"""Pods: which wait, which count on which node, and what each asks for. Pure.

- `record`: the record of each Pod, its state, and the steps from one state to the next.
- `demand`: what a Pod asks of a node; Pods with equal demands share every answer.
- `queue`: the Pods that wait for a node, highest priority first. `label_index`: the same by label.
- `reservations`: which Pods count on which node, and which of them no advertisement covers yet.
- `pod_questions`: what constraints ask about each placed Pod, for affinity, spreading, ports and volumes.
- `pod_counts`: which Pods are on each node, and how many of them count for each question.
- `pod_terms`: which terms of other Pods select a Pod.
"""
