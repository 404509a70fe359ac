"""Objects of the Kubernetes API <-> `carico_core.domain`; parsers raise only `ValueError`, with the field's path.

- `api_objects`: Pods, Nodes and some others. `pods`: the parts of a Pod. `bodies`: what CARICO writes.
- `lease`: coordination.k8s.io/v1 Leases. `storage`: claims, volumes, storage classes, and Namespaces.
- `pod_groups`: gangs of Pods, and what they ask for. `namespace_rules`: LimitRanges and ResourceQuotas.
- `selectors`: label and node selectors. `object_fields`: fields of an object by name, each checked. `instants`: times.
"""
