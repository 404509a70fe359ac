"""Recommended requests and limits of classes of Pods: the aggregator's answer as a table, JSON, YAML or patches.

- `command`: the command. `asking`: the questions to the aggregator and, for CronJobs and namespaces, to the API.
- `choosing`: which classes a namespace, a class or a workload means. `contradictions`: rules that refuse it.
- `text`: tables. `manifests`: resources blocks and patches. All but the first two are pure.
- `picture`: what the Pods of one class use, as a picture.
"""
