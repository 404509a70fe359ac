"""Filters that depend on where other Pods and volumes are."""
