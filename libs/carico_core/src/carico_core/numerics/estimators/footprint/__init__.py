"""`footprint`, the default estimator: the cost of a Pod per class and dimension. From top to bottom:

- `footprint` combines the steps.
- `population` keeps the Pods of the node, as they are and as telemetry shows them.
- `class_costs` learns the cost of a Pod of each class in one dimension. Its parts: `cost_filter`, the Kalman filters;
  `growth`, cost by age; `dimension`, what is assumed before anything is measured.
- `cluster_evidence` is what other nodes have measured.
- `admission` computes how many more Pods fit.
- `footprint_constants` has the numbers (docs/constants.md).
"""
