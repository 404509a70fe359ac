"""What the Kubernetes API shows of a node.

registration   the Node object, its Lease, status and labels
draining       a node's shutdown: cordon it, let its Pods finish, remove its Node
status         the status of a Pod, from what runs (pure)
reporter       writes statuses to the API
events         writes Events to the API
log_server     the kubelet's log endpoint
"""
