"""Whole clusters: next to the real kube-scheduler, several schedulers at a time, the demo, and emulated nodes."""
