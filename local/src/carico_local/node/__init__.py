"""An emulated node: speaks to the Kubernetes API as a kubelet does, and runs containers as processes of this machine.

main, app     the entry point, and the node assembled: cgroup, runtime, log endpoint, registration, Pods
settings      flags and variables of one node
site          what all parts of one node share
spec/         what a Pod and its containers ask for, and what of it a node does not support (pure)
pods/         which Pods the node has: taken or refused, run in order, ended with grace
containers/   one container: its variables and command, its probes and hooks, its restarts
runtime/      the parent of the containers' processes, its client, logs, and records on disk
reporting/    what the API shows: the Node and its Lease, statuses and Events of Pods, logs
"""
