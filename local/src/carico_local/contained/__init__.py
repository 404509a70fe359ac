"""An emulated node that is one container: kubelet, agent and Pods under one first process.

main         the first process: reads settings and size, imports what both programs need, forks them
pair         keeps the two programs running, reaps orphans, ends them in order
programs     kubelet and agent, imported before the fork
containers   the parent of the node's containers, forked before them
commands     the flags of both programs
identity     the node's name, from the engine's DNS
size         the container's own limits
settings     flags and variables
"""
