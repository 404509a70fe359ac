"""`carico doctor`: checks what CARICO needs of a cluster, before an install and when something is wrong.

- `command`: the command; `findings`: the result of a check; `places`: remedies that fit where the cluster runs
- `kubernetes`: the API and its nodes; `pods`: Pods that wait or are stuck; `waiting`: what they wait for;
  `rights`: RBAC
- `installation`: the parts that deploy/k8s or the Helm chart has installed
- `members`: schedulers that share the work
- `bus`: NATS and the services on it; `agents`: advertisements; `limits`: what NATS has left
"""
