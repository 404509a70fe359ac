"""Intake: brings what the Kubernetes API and the agents report into the state.

- `informers`: one list and watch for each collection of `api_collections`, and for how long the API has been silent.
- `advertisements`: the newest advertisement of each node, decoded when the cycle needs it.
- `handover`: what a new leader waits for before its first decision.
"""
