"""Rules: which nodes may take a Pod, and which of them is best. Pure.

- `protocol`: what a stage implements. `registry`: the stages in their order; to add one, write its file and list it.
- `admission`: the filters by what a node's agent advertises, the same rule for parked Pods, and which Pods are exempt.
- `filters`: a file for each filter by what a Node and a Pod state.
- `peers`: a file for each filter that depends on where other Pods and volumes are.
- `scorers`: how nodes with room are ranked. `preferences`: preferred affinity, spreading and taints, as one score.
- `default_spread`: the constraints that Kubernetes gives Pods of a ReplicaSet, StatefulSet or Service that have none.
- `policy`: the rules that an operator sets; `profiles`: settings of single schedulerNames, from text.
"""
