"""CARICO aggregator: merges the subspaces of all nodes into the model of the cluster.

Several replicas share one work queue and compute the same model.

- `members`   the newest entry of every live node; pure
- `trust`     bounds on the influence of one node; pure
- `evidence`  costs of Pods by class, fused over nodes; pure
- `usage`     what the Pods of each class use, added up over nodes; pure
- `versions`    what one set of images of a class has used, and when it no longer counts; pure
- `recommendations`   requests and limits from it; pure
- `merges`    the two ways to merge Gram matrices, `round` and `sequential`; pure
- `model`     the model from the entries, by either; pure
- `replicas`  following the models of another replica, which leads
- `kept_usage`  usage at one replica: taken in, kept over restarts, answered
- `app`       one replica's tasks: intake, exchange, broadcast; `bus`: the part of the bus that they use
- `service`, `settings`, `instruments`   connecting and stopping, configuration, metrics
"""
