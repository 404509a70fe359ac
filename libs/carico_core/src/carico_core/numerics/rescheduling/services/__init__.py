"""Services of equal containers, with a limit of moves.

- `affinity`: services, containers, machines and the traffic between services; counts, and the share of local traffic.
- `moves`: proposals and their effect on the gain, the inner loop. `state`: the arrays that it reads and changes,
  `start`: these for a problem. `search`: annealing over moves.
- `order`: single moves to the placement found, each with room for the old and the new container.
"""
