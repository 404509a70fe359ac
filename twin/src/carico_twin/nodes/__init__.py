"""Simulated nodes.

- `machine`: what a node has, and how tasks share it; `work`: what a Pod needs of it
- `kubelet`: starts, runs and ends Pods on it
- `telemetry`: what an agent reads there
"""
