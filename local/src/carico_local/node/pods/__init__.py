"""The Pods of a node.

kubelet     those that the API binds to the node are run, those that it no longer has are ended
admission   whether the node takes a Pod (pure)
worker      the life of one Pod
ending      how a Pod is ended, and its deadline
"""
