"""`carico doctor`: checks what CARICO needs of a cluster, before an install and when something is wrong.

- `command`: the command, which calls `kubernetes.check` and `bus.check`; these call the checks below them
- `findings`: the result of a check; `places`: remedies that fit where the cluster runs
- `kubernetes`: the API and its nodes. `rights`: RBAC. `installation`: the parts that deploy/k8s or the Helm chart has
  installed. `pods`: Pods that wait or are stuck; `waiting`: what they wait for
- `bus`: NATS and the services on it. `agents`: advertisements. `members`: schedulers that share the work. `limits`:
  what NATS has left
"""
