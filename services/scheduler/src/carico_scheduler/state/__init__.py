"""What the scheduler knows, kept in step with the API and the advertisements: events in, changed state out. Pure.

All of it can be rebuilt from the API's lists and the newest advertisements, which is what happens at a start.

- `state`: the life of each Pod, from the API's events and from decisions; puts the other parts together.
- `node_state`: Nodes, advertisements and volumes, and which waiting Pods a change may help.
- `early`: advertisements of nodes that the API does not show, as they came.
- `placements`: enters and ends the bookings by which Pods count on nodes.
- `pod_demands`: what each Pod asks of a node, and the DaemonSets, Services and namespaces that change it.
- `waiting_gangs`: gathers the Pods of a gang for a cycle, and takes PodGroups in.
"""
