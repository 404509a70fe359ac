"""Sources in cgroups, v1 and v2.

- `hierarchy`: where the files of a cgroup are, and which cgroups are Pods'. `own_node`: which cgroup is the node.
- `cpu_time`: CPU used, and quotas. `working_set`: memory used, and limits.
- `pod_ledger`: CPU time and memory of single Pods.
- `pod_throttling`: how long the Pods' own limits held them back.
"""
