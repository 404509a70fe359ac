"""What a Pod asks for, read once from its API object. Pure.

pod         the Pod: containers, grace, deadline, and what an emulated node does not support
container   one container: command, environment, limits, probes, hooks, mounts
sources     where variables come from, if not from literals, and where mounts lead
"""
