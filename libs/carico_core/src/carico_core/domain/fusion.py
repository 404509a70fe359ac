"""Numbers by which the nodes' evidence of a class is fused, and by which a node takes its own part out again.

Both sides weigh by 1 / (v + (BETWEEN_NODES c)^2) (design, section 7, step 6); they must mean the same.
"""

# Differences of a class's cost between nodes, as a share of it; from the quick twin, where .1 to .5 changed nothing.
BETWEEN_NODES = 0.2
# Below this a variance counts as none, and its weight stays far from overflow.
EXACT_BELOW = 1e-200
