"""CARICO aggregator: merges the nodes' subspaces into the model of the cluster."""
