"""An emulated node: talks to the Kubernetes API as a kubelet does, and runs containers as processes of this machine.

app           entry point; assembles cgroup, runtime, log endpoint, registration and Pods
settings      flags and variables of one node
spec/         what a Pod and its containers ask for, and what of it a node does not support (pure)
pods/         the Pods of the node: admitted or rejected, run in order, ended with a grace period
containers/   one container: its variables and command, its probes, its restarts
runtime/      the parent of the containers' processes, its client, logs, and records on disk
reporting/    what the API shows: the Node and its Lease, statuses and Events of Pods, logs
"""
