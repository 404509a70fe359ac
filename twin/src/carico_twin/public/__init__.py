"""Scenarios from public traces of production clusters, which had no part in the choice of any constant here.

- `alibaba`: batch tasks drawn from the quantiles of Alibaba's cluster trace of 2018.
- `openb`: Pods as they arrived at Alibaba's GPU cluster ("openb", 2023), from `openb_pods.csv`.

Both are scaled to nodes of four cores and to a minute or two. They state what Pods requested or used on average, so a
Pod uses that all its life.
"""
