"""Filters over one node: the Pod's and the node's own fields, and what the node's agent states."""
