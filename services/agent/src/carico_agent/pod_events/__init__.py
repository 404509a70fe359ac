"""Which Pods run on this node, from one of several sources.

- `pod_states`: the state of each Pod. `adapter`: what all adapters share.
- Adapters: `cgroup` (with `inotify`), `containerd` (with `containerd_client`, `containerd_wire`), `kubernetes`, `none`.
- The class of each Pod: `known_classes`, which follow `rosters` from the bus, or the Kubernetes API (`api_classes`).
"""
