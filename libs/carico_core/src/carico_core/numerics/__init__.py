"""Pure functions and small estimators: inputs in, new values out; no clock, no input or output.

- `ewma`: the filter of telemetry. `counters`: shares from counters of the kernel. `arrays`: checks of shapes.
- `subspace`: a node's model (FSVD as Gram matrices). `merge`: the cluster's. `signal`: the capacity signal of both.
- `fpca`, `spikes`: PRONTO's model and Reject-Job, to compare with. `kalman`: one filter step.
- `estimators`: what a Pod costs, and how many more a node takes.
"""
