"""Live signals of a cluster, read into an immutable picture. Nothing here draws.

- `connection`: connects to a cluster
- `reader`: follows bus and API, reconnects, and gives the picture
- `signals`: what is heard on the bus; `jobs`: Pods of the API, counted by job; `services`: answers of services
- `ports`: what a reader needs of bus and API; `picture`: the records
- `node_answers`: what agent and scheduler answer about one node
"""
