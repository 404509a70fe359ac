"""A local cluster: planned, started, watched and ended.

client       what a command does: starts a supervisor, reads its events, stops it, removes leftovers
plan         how many nodes a machine can run, and with which settings
machine      what the machine offers: processors, memory, disk space
free_ports   ports for services, each chosen by one process of the machine
supervisor   keeps the services running; `python -m carico_local.cluster` is its process
processes    child processes: started, identified, ended, restarted after crashes
folders      the directory of each cluster: paths, lock, and which clusters there are
state        what state.json says of a cluster
account      records one run, as events and as state
events       what a supervisor reports to the command that started it
leftovers    Pods and Nodes that an earlier run left at its API
services/    the processes of a cluster: how each is started, and when it is ready
"""
