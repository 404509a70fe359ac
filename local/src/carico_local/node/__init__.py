"""An emulated node: a small kubelet that runs the commands of Pods as real processes in the node's cgroup."""
