"""Writes and their consequences.

writing   create and update: decode, defaults, rules, conflicts
deletion  delete: grace period, finalizers, preconditions, namespaces
pods      binding a Pod, once
nodes     marks a Node without heartbeats as unreachable
events    the API's own Events, and the expiry of old ones
"""
