"""Real kubelets without a container engine: a node is a set of namespaces and cgroups of this machine.

What is in the namespaces (processes, mounts, interfaces, firewall rules) goes with the node's first process, however
that ends; what is not (cgroups, one bridge) bears the cluster's name.
"""
