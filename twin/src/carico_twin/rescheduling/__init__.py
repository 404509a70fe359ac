"""The rescheduling paper's simulations, repeated: its algorithms and ours on random problems of its sizes.

- `published`: the paper's figures. `study`: which runs are made, and each run. `results`: everything as JSON.
"""
