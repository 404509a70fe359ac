"""The processes of a cluster.

topology         every service of a plan, in start order, with its command and readiness check
service          one service: name, command, environment
control_planes   the services behind the Kubernetes API: embedded, or the real control plane
kubelet_nodes    the services of nodes that are real kubelets
web_access       how browsers reach the bus
probes           which check each service has
readiness        checks whether a service is ready
ready_nodes      which Nodes are Ready, and which advertise
"""
