"""Which running containers move: less traffic between servers and less overload, by the paper's algorithms and ours.

- `model`: containers, servers, constraints and both costs. `generator`: random problems of the paper's sizes
- `kernel`: proposals and their effect on both costs, the inner loop
- `exact`: every placement of a small problem. `threshold`: from over-used servers to under-used ones
- `compiled`: numba if it is installed
"""
