"""A local cluster: planned, started, watched and ended.

client       what a command does: starts a supervisor, hears its events, ends it, removes leftovers
plan         how many nodes a machine carries, and with which settings
machine      what the machine offers
ports        free TCP ports
supervisor   keeps the services running; `python -m carico_local.cluster` is its process
processes    child processes: started, identified, ended, restarted after crashes
state        what is written about a cluster: state.json, lock, places
account      what there is to say of one run, as events and as state
events       what a supervisor reports to the one who started it
leftovers    what an earlier run left at its API
full_disk    when a disk that was full has room again
services/    which processes make up a cluster, and how each is started and found ready
"""
