"""One container of a Pod.

worker           its life: started, watched, restarted, ended
command          what it runs, where, and with which variables
variables        its environment
config_objects   the ConfigMaps and Secrets that its variables come from
probes           startup, readiness and liveness
handlers         what a probe or a hook does: a request, a connection, a command, a pause
lifecycle        latencies of a start, back-off, and how an end reads in the status
"""
