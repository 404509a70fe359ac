"""What a Pod asks for, parsed once from its API object. Pure.

pod         the Pod: containers, grace, and what an emulated node does not support
container   one container: command, environment, limits, probes, mounts
sources     variables that do not come from literals, and volume mounts
"""
