"""Rules: which nodes may take a Pod, and which of them is best. Pure.

- `registry`: the stages in their order. To add one, write its file and list it there.
- `protocol`: what a stage implements.
- `policy`: the rules that an operator sets.
- `filters`: a file for each filter over one node, and the scorer by capacity.
- `peers`: a file for each filter that depends on where other Pods and volumes are.
- `preferences`: preferred affinity, spreading and taints, as one score.
- `by_requests`: the scorer while no node advertises.
"""
