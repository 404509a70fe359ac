"""From samples to an estimate. Pure, except for logs of dropped models.

- `pipeline`: filter, batch, local model, merge with the cluster's, signal, estimator. Begin here.
- `pod_usage`: what the Pods of each class use, for recommended requests; added up in a `usage_tally`.
- `local_model`: the node's own model. `cluster_model`: accepts or drops models of the cluster.
- `configuration`: their configuration, from the settings.
"""
