"""The programs that Pods of a job run, paced to shares of an emulated core.

main         the command `carico-workload`
environment  the variables that it gets from an emulated node
pi           one thread that computes
train        memory and computation, as in training
mlp          a neural network that is really trained
server       answers requests
phases       programs that wait: duty cycles, threads and memory that change, peaks at the start
pacing       limits a thread to a share of each period
"""
