"""Benchmarks: medians, each with its command; not part of a pass or fail."""
