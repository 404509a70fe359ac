"""An emulated node that is one container: kubelet, agent and Pods under one first process.

main       the first process: reads settings and size, imports what the programs need, forks them
pair       keeps the two programs running, reaps orphans, stops them in order
programs   kubelet and agent, imported before the fork
settings   flags and variables of the container, and the flags of both programs that follow from them
identity   the node's name, from the engine's DNS
size       the container's own limits
"""
