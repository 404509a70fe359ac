"""JetStream: what is kept on the bus, and how it is written and read.

- `jetstream`: every stream, consumer and bucket. `claims`: room on nodes that schedulers claim.
- `pull_consumer`: the work queue. `direct_get`: reads what streams hold.
- `kept`: what streams hold, for readers, who have no JetStream.
"""
