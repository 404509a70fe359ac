"""Sharing: several schedulers decide and bind at the same time, and claim the room of a node before they bind to it.

Each Pod belongs to the share of one live member. A member decides on the whole cluster, and commits: it writes its
claims of a node to the stream CARICO_CLAIMS, which takes them only if it has read all earlier ones (compare and set).
Claims of others count as reservations until the own watch shows the Pod.

- `member`: one scheduler of several; puts everything together for the engine.
- `parts`: what a member needs of the engine, the bus and the Lease.
- `membership`: whether it may commit now; announces it, and knows which Pods are its own.
- `heartbeats`: which members are alive.
- `shares`: which member decides on a Pod, and which node is whose home, so that members seldom choose the same. Pure.
- `corrections`: Pods that the holder of the Lease decides on in place of their member, and room that it holds.
- `own_claims`: the member's claims, from the decision to the outcome of the bind.
- `claims`: the claims of all members: written, read, checked and ended.
- `fence`: keeps a scheduler that leads alone from binding next to members.
- `tally`: what a member has committed, for its report.
"""
