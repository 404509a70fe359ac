"""What stands in for a container runtime.

zygote    the parent of all containers: a process with its imports done, which forks each container and reaps it
child     what a fork does to become a container
client    the node's side of the socket to the zygote
records   what is kept on disk, so that the next node process finds its containers
logs      log files in the CRI format
"""
