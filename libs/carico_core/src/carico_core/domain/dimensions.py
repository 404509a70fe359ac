"""What is known of dimensions by their names; one that is not named here is a share of time, such as the CPU's."""

# Whose scale is bytes.
IN_BYTES = frozenset({"memory", "gpu_memory"})
