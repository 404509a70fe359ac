"""Recordings of a node.

- `record`: writes one, in a `session` that samples this machine or an emulated node
- `replay`: runs one through an estimator: `engine` runs it, `fit` measures how well it fitted, `plot` draws it
- `figures`: the dissertation's figures of one node, redrawn
- `reading`: opens a file, a recording or a log of the dissertation's agent (`author_log`, its `sample_words`,
  `log_trace`), as a `trace`
"""
