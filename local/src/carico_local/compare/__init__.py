"""The same job under one scheduler after another, on one cluster: CARICO and the real kube-scheduler.

contender    which scheduler, and what its Pods request
ground       the cluster on which trials run, and its agents
trial        one job under one contender
servers      servers that run next to the job
comparison   medians, and how CARICO stands to the targets
"""
