"""Which Pods run on this node, one file per adapter."""
