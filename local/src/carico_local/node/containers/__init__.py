"""One container of a Pod.

worker           its life cycle: started, watched, restarted, ended
command          what it runs, where, and with which variables; what the parts of a node share
variables        its environment variables
config_objects   the ConfigMaps and Secrets that its variables come from
probes           startup, readiness and liveness
handlers         what a probe does: a request, a connection, a command
lifecycle        start latency, back-off, and the status of a container that ended
"""
