"""Nodes: what the API and their agents report about them, in columns that a decision reads whole. Pure.

- `fleet`: all nodes by slot; the only writer of the `columns`.
- `snapshot`: the columns as one scheduling cycle reads them, and one node of them as a row.
- `headroom`: how many Pods of a class fit by what a node advertises.
- `node_labels`: which nodes match terms over names, labels and taints.
- `storage`: PersistentVolumeClaims, volumes and their classes; `volume_placement`: which nodes they allow.
- `images`: which nodes have the images of a Pod.
- `lru`: answers over all nodes, cached and updated slot by slot.
"""
