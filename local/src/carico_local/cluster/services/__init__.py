"""The processes of a cluster.

topology         every service of a plan, in order, with its command and probe
service          one service: name, command, environment
control_planes   those that answer at the Kubernetes API: the embedded one, or the real control plane
kubelet_nodes    those of nodes that are real kubelets
web_access       how browsers reach the bus
readiness        whether a service is ready
ready_nodes      which Nodes are Ready and which advertise
"""
