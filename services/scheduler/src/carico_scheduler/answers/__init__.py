"""What the scheduler answers about one Pod, one node, or what would fit: from its live state, which nothing changes."""
