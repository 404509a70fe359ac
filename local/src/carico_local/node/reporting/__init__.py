"""What the Kubernetes API shows of a node.

registration   the Node object, its Lease, status and labels
draining       how a node leaves: cordoned, its Pods finished, its Node removed
status         the status of a Pod, from what runs (pure)
reporter       statuses on their way to the API
events         Events on their way to the API
log_server     the kubelet's log endpoint
"""
