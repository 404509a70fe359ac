"""Rescheduling: which running containers to move, and in which order.

- `command`: `carico reschedule`
- `problem_file`: reads a problem; what it names and what it demands is checked here
- `planning`: search within the time, order of the moves; `report`: the plan as text, JSON and files
- `cluster`: a running cluster: asks its rescheduler for plans and moves; `cluster_text`: both for people
"""
