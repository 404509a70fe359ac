"""The replacement for a container runtime.

zygote    the parent of all containers: a process with its imports done, which forks and reaps each container
child     what a fork does to become a container
client    the node's side of the socket to the zygote
records   files by which the next node process finds its containers, and those that Pods themselves may use
users     the user that a container runs as
landlock  takes the right to read some folders from a process
logs      log files in the CRI format
"""
