"""Live signals of a cluster, read off the bus into an immutable picture. No screen in it."""
