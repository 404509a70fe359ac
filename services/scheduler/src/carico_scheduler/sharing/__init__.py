"""Sharing: several schedulers decide and bind at the same time, and claim the room of a node before they bind to it.

Each Pod belongs to the share of one live member. A member decides on the whole cluster, and commits: it writes its
claims of a node to the stream CARICO_CLAIMS, which takes them only if it has read all earlier ones (compare and set).
Claims of others count as reservations until the own watch shows the Pod.

- `member`: one scheduler of several; puts everything together for the engine.
- `parts`: what a member needs of the engine, the bus and the Lease.
- `readiness`: whether it may commit now.
- `membership`: announces it, and knows which Pods are its own.
- `own_claims`: its claims, from the decision to the outcome of the bind.
- `shares`: which member decides on a Pod, and which node is whose home. Pure.
- `homes`: ranks nodes of other members a little lower, so that members seldom choose the same one. Pure.
- `corrections`: Pods that the holder of the Lease decides on in place of their member, and room that it holds.
- `claiming`: the claim of one decision, or of all of a gang, before its bind.
- `ledger`: the claims as last read: which count, and which may be left out of the next message. Pure.
- `fits`: whether a Pod still fits once its node's claims have changed. Pure.
- `rechecks`: the same for a decision of this member.
- `commits`: commits the claims of a cycle; after a conflict reads the node again.
- `stream`: follows the stream, and notices that it is another one.
- `heartbeats`: which members are alive.
- `tally`: what a member has committed, for its report.
- `janitor`: ends claims whose Pods were never bound.
"""
