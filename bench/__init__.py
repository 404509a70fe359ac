"""Benchmarks: medians with the command that made them; never part of a pass or fail."""
