"""Jobs of a local cluster, and their report.

job        Pods of one workload with a common label
job_labels labels of its Pods, and which job a Pod belongs to
observer   follows a cluster and its jobs while they run
facts      what is recorded of each Pod, capacity and decision
figures    job time, Pod times, fairness, accuracy of capacities (pure)
"""
