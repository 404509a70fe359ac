"""Real kubelets on one machine: each node is a container of a Docker engine, with containerd and kubelet inside."""
