"""Recordings of a node.

- `record`: the command that writes one, by asking an agent or in a `session` on this machine.
- `replay`: the command that runs one through an estimator. `reading` opens a file, `author_log` and `log_trace` one of
  the dissertation's logs; `trace` is what either gives. `engine` runs it, `fit` says how well it fitted, and `picture`
  draws that.
"""
