"""Filters over one node: the fields of the Pod and the Node, and what is requested there."""
