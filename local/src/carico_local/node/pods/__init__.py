"""The Pods of a node.

kubelet     runs the Pods that are bound to the node, ends those that the API no longer has
admission   whether the node admits a Pod (pure)
worker      the life cycle of one Pod, and how it is ended
"""
