"""The same job under one scheduler after another, on one cluster: CARICO and the real kube-scheduler.

contender    a scheduler, and what its Pods request
testbed      the cluster on which trials run, and its agents
load         what runs: a job of our workloads, or the Pods of manifests
admission    which Pods of manifests its cluster would not run
trial        one job under one contender
servers      servers that run next to the job
applications  services that send each other requests, before and after their Pods are moved
comparison   medians, and whether CARICO meets the targets
"""
