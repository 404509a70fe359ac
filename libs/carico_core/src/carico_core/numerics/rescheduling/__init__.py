"""Which running containers move: less traffic between servers and less overload.

The paper's model, of traffic between containers and overload of servers:
- `model`: containers, servers, constraints and both costs. `generator`: random problems of the paper's sizes
- `kernel`: proposals and their effect on both costs, the inner loop
- `annealing`: the paper's four variants. `carico`: ours, for any time budget
- `exact`: every placement of a small problem. `threshold`: from over-used servers to under-used ones

Services of equal containers, with a limit of moves:
- `affinity`: services, containers, machines and the traffic between services; counts, and the share of local traffic
- `moves`: proposals and their effect on the gain, the inner loop. `state`: the arrays that it reads and changes,
  `start`: these for a problem. `search`: annealing over moves
- `order`: single moves to the placement found, each with room for the old and the new container

For both:
- `pod_traffic`: traffic between Pods from what agents report of connections
- `compiled`: numba if it is installed
"""
