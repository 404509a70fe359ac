"""A node that is one container: which name and size it has, and its two programs, started, watched and ended."""
