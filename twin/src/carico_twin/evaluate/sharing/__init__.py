"""Several schedulers at a time in virtual time: conflicts, retries, waiting times, evenness (the curves of Omega).

- `setup`: what one run simulates. `model`: the run, and its figures.
- `member`: one scheduler. `choices`: how it ranks nodes.
- `placing`: nodes for the Pods of a batch. `pods`: what passes between these.
- `paper`, `correction`: the equations and the correction function of the hybrid shared-state scheduler's paper.
- `cluster`: the true state of the nodes, and each scheduler's delayed view of it.
- `study`: which runs an evaluation makes. `results`: everything as JSON.
"""
