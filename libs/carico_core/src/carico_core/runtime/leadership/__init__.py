"""Leadership: one of several replicas of a service works, elected by a Lease as client-go elects leaders.

- `status`: whether this replica leads
- `elector`: runs for the Lease at the Kubernetes API, by the rules of `candidate`
- `leader_settings`: identity and times of the election
"""
