"""Objects of the Kubernetes API <-> `carico_core.domain`; parsers raise only `ValueError`, with the field's path.

- `api_objects`: Pods, Nodes and some others. `constraints`, `pod_requests`: two parts of a Pod. `shared_values`: what
  Pods of one template share. `bodies`: what CARICO writes. `instants`: times.
- `status`: whether a Pod's containers run, or have failed. `template`: its images, containers and requests.
- `lease`: coordination.k8s.io/v1 Leases. `storage`: claims, volumes, storage classes, and Namespaces.
- `pod_groups`: gangs of Pods, and what they ask for.
- `selectors`: label and node selectors. `object_fields`: fields of an object by name, each checked.
"""
