"""Thousands of nodes: kwok plays their kubelets, and one process, the fleet, plays all their agents.

nodes     the Node objects
agents    what the agents would report, from the Pods at the API (pure)
service   creates the Nodes, follows their Pods, and advertises for each
"""
