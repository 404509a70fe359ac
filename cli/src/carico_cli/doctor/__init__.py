"""`carico doctor`: what a cluster needs for CARICO, checked before an install and when something is wrong.

- `command`; `findings`: the result of a check
- `cluster`: API, nodes and waiting Pods; `rights`: RBAC; `signals`: the bus; `agents`: advertisements
"""
