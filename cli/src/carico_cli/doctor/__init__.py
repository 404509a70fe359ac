"""`carico doctor`: checks what CARICO needs of a cluster, before an install and when something is wrong.

- `command`: the command; `findings`: the result of a check
- `kubernetes`: the API, nodes and waiting Pods; `rights`: RBAC
- `bus`: NATS and the services on it; `agents`: advertisements
"""
