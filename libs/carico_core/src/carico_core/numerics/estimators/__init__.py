"""How a node's capacity is estimated. Begin with `base` and `footprint`.

- `base`: what every estimator is given and gives back. `registry`: the estimators by name.
- `footprint`, the default: costs per class of Pods and dimension. From top to bottom: `footprint` puts the steps
  together; `population` is the Pods of the node, as they are and as telemetry shows them; `class_costs` learns what a
  Pod of each class takes in one dimension (`cost_filter`: the Kalman filters, `growth`: by age, `dimension`: what is
  believed before anything is measured); `cluster_evidence` is what other nodes have measured; `admission` says how
  many more fit. `footprint_constants` has its numbers.
- `scalar`, with `delta`, `dual` and `joint`: the dissertation's filters on the capacity signal.
"""

from carico_core.numerics.estimators.registry import ESTIMATORS, create

__all__ = ["ESTIMATORS", "create"]
