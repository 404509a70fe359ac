"""Pure functions and small estimators: inputs in, new values out; no clock, no I/O.

- `arrays`: arrays with checked shapes. `ewma`: the filter of telemetry. `kalman`: one filter step.
  `backoff`: waits between attempts.
- `subspace`: a node's model (FSVD as Gram matrices), and the cluster's. `signal`: the capacity signal of both.
- `fpca`, `spikes`: PRONTO's model and Reject-Job, for comparison.
- `distribution`: usage in buckets. `recommendation`: requests and limits from it.
- `estimators`: the cost of a Pod, and how many more Pods a node takes.
- `overcommit`: the peak of a machine's usage in the near future.
- `rescheduling`: which running containers to move, and in which order.
"""
