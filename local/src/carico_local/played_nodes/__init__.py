"""Nodes by the thousand: Node objects whose kubelets kwok plays, and one process that plays all their agents.

nodes     the Node objects
agents    what the agents would report, by the Pods that the API shows (pure)
service   makes the Nodes, follows their Pods, and advertises for each
"""
