"""Filters over one node: the fields of the Pod and the Node, and what is requested there. Each is named after its rule.

By the Node alone: `unsupported`, `node_name`, `cordon`, `taints`, `node_selector`, `node_affinity`. By what is left of
it: `requests`, `pod_limit`.
"""
