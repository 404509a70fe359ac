"""Peak predictors on a recorded trace: series as Pods on machines, each prediction compared with what followed.

- `reading`: a trace from a CSV file. `scoring`: machines drawn from it, and the predictors' scores.
- `requests`: rules that recommend requests, with each series as a class of Pods.
"""
