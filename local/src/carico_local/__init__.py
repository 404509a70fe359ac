"""CARICO local cluster: control planes, emulated nodes, workloads."""
