"""Leadership: which of several schedulers decides and binds, by a Lease, as client-go elects leaders.

- `status`: whether this scheduler leads.
- `elector`: runs for the Lease, by the rules of `candidate`, kept where `leases` says.
- `handover`: what a new leader waits for before its first decision.
- `settings`: identity and times of the election.
"""
