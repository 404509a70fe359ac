"""The claims of all members on nodes: written, read, checked and ended. It knows nothing of the members.

- `ledger`: the claims as last read: which count, and which may be left out of the next message. Pure.
- `commits`: commits the claims of a cycle; after a conflict reads the node again.
- `stream`: follows the stream, and notices that it is another one.
- `claiming`: the claim of one decision, or of all of a gang, before its bind.
- `rechecks`: whether a decision still fits its node, once the claims there have changed. `fits`: the rule. Pure.
- `janitor`: ends claims whose Pods were never bound.
"""
