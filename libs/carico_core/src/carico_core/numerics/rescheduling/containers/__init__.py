"""The paper's model, of traffic between containers and overload of servers.

- `model`: containers, servers, constraints and both costs. `generator`: random problems of the paper's sizes.
- `kernel`: proposals and their effect on both costs, the inner loop. `tables`: its arrays.
- `annealing`: the paper's four variants. `carico`: ours, for any time budget.
- `gains`: both costs in one absolute unit. `series`: placements that cost less in it, also by way of moves that lose.
- `threshold`: from over-used servers to under-used ones.
"""
