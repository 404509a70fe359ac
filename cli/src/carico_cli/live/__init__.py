"""Live signals of a cluster, read into an immutable picture. Nothing here draws.

- `connection`: connects to a cluster
- `reader`: follows bus and API, reconnects, and returns the picture
- `signals`: messages of the bus; `job_counts`: Pods of the API, counted by job; `services`: answers of services
- `ports`: the bus and the API as a reader needs them; `picture`: the records
- `node_answers`: answers of agent and scheduler about one node
"""
