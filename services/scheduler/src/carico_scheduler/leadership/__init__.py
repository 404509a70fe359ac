"""Leadership: one of several schedulers decides and binds, elected by a Lease as client-go elects leaders.

- `status`: whether this scheduler leads.
- `elector`: runs for the Lease at the Kubernetes API, by the rules of `candidate`.
- `handover`: what a new leader waits for before its first decision.
- `leader_settings`: identity and times of the election.
"""
