"""Which Pods run on this node.

- `pod_states`: what every adapter keeps, and `adapter`, what they share.
- Adapters: `cgroup` (with `inotify`), `containerd` (with `containerd_client`, `containerd_wire`), `kubernetes`, `none`.
- `classes`: which class each Pod is of, by the Kubernetes API (`node_pods` follows it). `workloads`: without the Pods
  that belong to the node.
"""
