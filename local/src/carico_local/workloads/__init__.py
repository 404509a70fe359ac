"""What Pods of a job run, paced in shares of an emulated core.

main     the command `carico-workload`
pi       one thread that computes
train    memory and computation, as training has them
server   answers requests
pacing   burns a share of each period
"""
