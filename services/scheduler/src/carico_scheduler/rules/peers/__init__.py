"""Filters that depend on where other Pods and volumes are.

Each is named after its rule: `host_ports`, `volumes`, `pod_affinity`, `pod_anti_affinity`, `spread`.
"""
