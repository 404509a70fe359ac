"""Defaults and validation of objects, with kube-apiserver's messages.

validation     checks of every kind on create and update
defaulting     defaults for fields that a client has not set
placement      affinity, spread constraints, tolerations, taints
configuration  ConfigMaps, Secrets, and the variables that refer to them
event_forms    Events in core v1 and in events.k8s.io, and conversion between the two
fields         shared by the others: names, labels, the causes of a 422
"""
