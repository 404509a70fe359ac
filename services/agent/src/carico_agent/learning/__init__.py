"""From samples to an estimate. Pure, but for what is logged of a dropped model.

- `pipeline`: filter, batch, local model, merge with the cluster's, signal, estimator. Begin here.
- `local_model`: the node's own model. `cluster_model`: what is taken in of the cluster's.
- `configuration`: the settings as these want them.
"""
