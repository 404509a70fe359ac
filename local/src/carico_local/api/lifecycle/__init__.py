"""Writes, and what follows from them.

writing   create and update: decode, defaults, rules, conflicts
deletion  delete: grace, finalizers, preconditions, namespaces
pods      binding, once
nodes     a Node whose Lease grows old is unreachable, and its Pods are evicted
events    Events of the API's own, and the end of old ones
"""
