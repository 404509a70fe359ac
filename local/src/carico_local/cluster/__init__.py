"""The local cluster: its plan, its processes, what is written about it, and the supervisor that keeps it."""
