"""Recordings of a node.

- `record`: writes one, in a `session` that samples this machine or an emulated node
- `replay`: runs one through an estimator: `engine` runs it, `fit` measures how well it fitted, `plot` draws it
- `reading`: opens a file, a recording or a log of the dissertation's agent (`author_log`, `log_trace`), as a `trace`
"""
