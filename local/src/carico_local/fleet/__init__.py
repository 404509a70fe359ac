"""Nodes by the thousand: Node objects whose kubelets kwok plays, and one process that speaks for all their agents."""
