"""Live signals of a cluster, read into an immutable picture. Nothing here draws.

- `addresses`: where a cluster is reached; `connection`: connects to it
- `reader`: follows bus and API, reconnects, and returns the picture
- `capacity_list`: the nodes as the scheduler lists them
- `signals`: messages of the bus; `services`: answers of services; `service_queries`: asks a service
- `pods`: Pods of the API in the order in which they are shown, and counted by job
- `loads`: what single Pods use, as agents report it
- `object_events`: the newest Events about an object, however many there are
- `ports`: the bus and the API as a reader needs them; `picture`: the records
- `history`: the last quarter of an hour, as the bus keeps it
- `earlier`: whether another cluster has taken the place of the one before
- `members`: schedulers that share the work, by their heartbeats
- `node_answers`: answers of agent and scheduler about one node
"""
