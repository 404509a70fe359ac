"""The parts of a Pod in the Kubernetes API; `api_objects.parse_pod` puts them together.

- `spec`: what its spec states. `constraints`, `pod_requests`, `images`, `template` (images, containers and requests as
  one value): parts of that.
- `status`: whether its containers run, or have failed. `containers`: which of them wait or have failed, and why.
- `ownership`: its controller, or that it belongs to its node.
- `pod_class`: its class alone. `shared_values`: what Pods of one template share.
"""
