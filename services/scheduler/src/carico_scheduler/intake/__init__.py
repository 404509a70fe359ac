"""Intake: what the Kubernetes API and the agents say, on its way into the state.

- `informers`: one list and watch for each collection of `api_collections`.
- `api_probe`: for how long the API has not answered.
- `advertisements`: the newest advertisement of each node, decoded when the cycle wants it.
"""
