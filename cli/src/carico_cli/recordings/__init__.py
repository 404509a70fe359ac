"""Recordings of a node: `record` writes one, `replay` runs it through an estimator, `picture` draws that."""
